#!/bin/sh
# Marks what a launcher starts on another host, so that it is found there:
#   TUNE_SSH="ssh -F config" TUNE_TRIAL=… ssh_wrapper.sh [-option …] host command …
# ssh carries no variable to the other host, so the marker goes before the command. The launchers
# give ssh options without values only. TUNE_SSH is quoted as for a shell.
#
# Launchers may end with 0 after their ssh was killed, or go on waiting. So the names of files in the
# folder TUNE_CONNECTIONS tell of each ssh: HOST once it runs, HOST=STATUS once it has ended.

# shellcheck disable=SC2034  # eval reads host and mark

note() {
  # Not a special command such as ":", with which a full disk would end this shell.
  [ -z "$TUNE_CONNECTIONS" ] || true >"$TUNE_CONNECTIONS/$1"
}

options=
while [ "${1#-}" != "$1" ]; do
  options="$options $1"
  shift
done
host=$1
shift
mark="TUNE_TRIAL=$TUNE_TRIAL; export TUNE_TRIAL;"
eval "set -- $TUNE_SSH $options \"\$host\" \"\$mark\" \"\$@\""
note "$host"
"$@"
status=$?
note "$host=$status"
exit "$status"
