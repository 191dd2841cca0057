#!/bin/sh
# Marks what a launcher starts on another host, so that it is found there:
#   TUNE_SSH="ssh -F config" TUNE_TRIAL=… ssh_wrapper.sh [-option …] host command …
# ssh carries no variable to the other host, so the marker goes before the command. The launchers
# give ssh options without values only. TUNE_SSH is quoted as for a shell.

# shellcheck disable=SC2034  # eval reads host and mark

options=
while [ "${1#-}" != "$1" ]; do
  options="$options $1"
  shift
done
host=$1
shift
mark="TUNE_TRIAL=$TUNE_TRIAL; export TUNE_TRIAL;"
eval "set -- $TUNE_SSH $options \"\$host\" \"\$mark\" \"\$@\""
exec "$@"
