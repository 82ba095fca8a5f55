#!/usr/bin/env bash
# The only program of the guest of stack.sh: runs as its first process.
. /usr/local/sbin/first_process.sh
export REVEAL_INTERVAL=250ms # an emulated processor does not keep up with ten samples a second
libraries=/usr/local/lib/stack
say "$(uname -r), $(nproc) cpus"
reveal-collect --check --stack --job pid:$$ 2>&1 | grep -w stack

reveal-run --stack --quiet --no-report --output counted -- stack_calls count $libraries >counted.log 2>&1
status=$?
cat counted.log
expected "the job's exit status is $status, its own" test $status = 7

watched() { # watched NAME SIGNAL: a program beside which a collector is ended so
  local job collector status
  stack_calls watch $libraries >$1.log 2>&1 &
  job=$!
  reveal-collect --stack --job pid:$job --output $1.h5 2>$1.collector.log &
  collector=$!
  while kill -0 $job 2>/dev/null && ! grep -q attached $1.log; do sleep 0.2; done
  kill -$2 $collector
  wait $collector
  wait $job
  status=$?
  expected "after SIG$2: $(xargs <$1.log)" test $status = 0
}
watched ended TERM
watched killed KILL
