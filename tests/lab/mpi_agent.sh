#!/usr/bin/env bash
# What mpirun takes for ssh: mpi_agent.sh 10.77.0.2 COMMAND... runs it on that node of laboratory REVEAL_LAB.
set -euo pipefail
number=$((${1##*.} - 1))
shift
exec bash "$(dirname "$0")/nodes.sh" exec "$REVEAL_LAB-n$number" sh -c "$*"
