#!/bin/sh
# Sets the environment of one rank, then becomes the rank's command:
#   task_wrapper.sh [-u NAME ...] NAME=VALUE ... -- command [argument ...]
# -u removes a variable. Any value is taken byte for byte. Exit status: 2 for a mistake in
# these arguments, 127 and 126 for a command that is not there or not executable, else the command's.
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

while [ "$#" -gt 0 ]; do
  case $1 in
    --)
      break
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
      fail "'$1' is neither -u NAME nor NAME=VALUE; '--' must stand before the command"
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
