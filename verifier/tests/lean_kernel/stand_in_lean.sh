#!/bin/sh
# A stand-in for `lean --json -R FOLDER -o OLEAN FILE`. It copies a module from a subfolder of its working folder: the one that the proof `exact NAME` names, or `asked` for
# a statement alone.
while [ "$1" != -o ]; do shift; done
name=$(sed -n 's/^ *exact //p' "$3")
cp "${name:-asked}"/Proof.olean* "$(dirname "$2")"
