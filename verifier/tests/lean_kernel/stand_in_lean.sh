#!/bin/sh
# A stand-in for `lean --json -R FOLDER -o OLEAN FILE`: what it leaves is the module, in a folder of the one that it is started in, that the proof `exact NAME` names, and `asked` for
# a statement alone.
while [ "$1" != -o ]; do shift; done
name=$(sed -n 's/^ *exact //p' "$3")
cp "${name:-asked}"/Proof.olean* "$(dirname "$2")"
