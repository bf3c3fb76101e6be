#!/bin/sh
# run.sh BINARIES CORPUS OUT SECONDS TARGET...: gives each fuzz target its time. The targets are
# BINARIES/fuzz_TARGET, the kept inputs CORPUS/TARGET/. OUT gets what is found: new inputs in
# corpus/TARGET/, failing ones in found/, what was printed in log/. With 0 SECONDS the kept inputs are
# run and nothing else. FUZZ_PROCESSES (1) is for each target; FUZZ_TOGETHER=1 runs all targets at once;
# FUZZFLAGS go to libFuzzer.
binaries=$1 kept=$2 out=$3 seconds=$4
shift 4
passed=0 failed=0
mkdir -p "$out/found" "$out/log"
rm -f "$out"/log/*

# one TARGET NUMBER: one process.
one() {
  limit="-max_total_time=$seconds" length=192
  [ "$1" != npy ] || length=512
  [ "$seconds" != 0 ] || limit=-runs=0
  [ ! -f "$kept/$1.dict" ] || limit="$limit -dict=$kept/$1.dict"
  mkdir -p "$out/corpus/$1"
  "$binaries/fuzz_$1" $limit -max_len=$length -len_control=0 -timeout=30 -print_final_stats=1 \
    -artifact_prefix="$out/found/$1-" $FUZZFLAGS "$out/corpus/$1" "$kept/$1" >"$out/log/$1.$2" 2>&1
  echo "status $?" >>"$out/log/$1.$2"
}

# sum FILE...: of the inputs that were run.
sum() {
  cat "$@" | awk '/^stat::number_of_executed_units:/ { n += $2 } END { printf "%d", n }'
}

for target; do
  i=0
  while [ $i -lt "${FUZZ_PROCESSES:-1}" ]; do
    one "$target" $i &
    i=$((i + 1))
  done
  [ "${FUZZ_TOGETHER:-0}" = 1 ] || wait
done
wait

for target; do
  ran=$(sum "$out/log/$target".*)
  if [ "$(grep -h '^status ' "$out/log/$target".* | sort -u)" = 'status 0' ] && [ "$ran" -gt 0 ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAIL $target: $(grep -h -c 'Test unit written to' "$out/log/$target".* | awk '{ n += $1 } END { print n }') inputs in $out/found"
    grep -h -E '^case: |^FAILED |^SUMMARY: |runtime error:|Test unit written to' "$out/log/$target".* | sed 's/^/  | /'
  fi
  printf '%-16s %12d inputs, %s processes of %s s, %d kept, %d known\n' "$target" "$ran" \
    "${FUZZ_PROCESSES:-1}" "$seconds" "$(ls "$kept/$target" | wc -l)" "$(ls "$out/corpus/$target" | wc -l)"
done
echo "$(sum "$out"/log/*) inputs were run"
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
