#!/bin/sh
# Sets the environment of one rank, then becomes the rank's command:
#   task_wrapper.sh [-i FILE] [-u NAME ...] NAME=VALUE ... -- command [argument ...]
# Rank 0 reads FILE as its standard input, other ranks nothing. -u removes a variable. Any value is
# taken byte for byte. Exit status: 2 for a mistake in these arguments, 127 and 126 for a command
# that is not there or not executable, else the command's.
#
# No variable of its own: it would change one of the same name that the command inherits.

fail() {
  # One line, whatever is in the argument.
  printf 'task_wrapper.sh: %s\n' "$(printf '%s' "$1" | tr '\n' ' ')" >&2
  exit 2
}

check_name() {
  # Spelled out, as a range means other letters in other locales.
  case $1 in
    '' | [0123456789]* | *[!ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_]*)
      fail "'$1' is not the name of an environment variable"
      ;;
  esac
}

# Open MPI 5.0.11 gives rank 0 an input that never ends; torchrun gives all ranks the same one.
exec </dev/null

while [ "$#" -gt 0 ]; do
  case $1 in
    --)
      break
      ;;
    -i)
      [ "$#" -gt 1 ] || fail "-i needs a file"
      case ${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${PMIX_RANK:-${SLURM_PROCID:-${RANK:-0}}}}} in
        0) exec <"$2" ;;
      esac
      shift
      ;;
    -u)
      [ "$#" -gt 1 ] || fail "-u needs the name of a variable"
      check_name "$2"
      unset -v "$2" || fail "$2 cannot be unset"
      shift
      ;;
    *=*)
      check_name "${1%%=*}"
      # shellcheck disable=SC2163 # the argument is NAME=VALUE, and its name was checked
      export "$1" || fail "${1%%=*} cannot be set"
      ;;
    *)
      fail "'$1' is neither -i FILE, -u NAME nor NAME=VALUE; '--' must stand before the command"
      ;;
  esac
  shift
done

[ "$#" -gt 0 ] || fail "no '--' and command after the assignments"
shift
[ "$#" -gt 0 ] || fail "no command after '--'"
case $1 in
  -*) fail "the command '$1' begins with a dash: give its path" ;;
esac
# Not a child: what ends the rank must not leave the command running.
exec "$@"
