#!/bin/sh
# Runs commands one after another and adds up what they count. Each ends its output with the line
# "N passed, N failed, N skipped"; so does this script. A command that ends without that line, or
# that fails though it counts no failure, is itself one failure.
passed=0 failed=0 skipped=0
status=$(mktemp)
trap 'rm -f "$status" "$status.log"' EXIT

for command in "$@"; do
  echo "== $command"
  { sh -c "$command" 2>&1; echo $? >"$status"; } | tee "$status.log"
  code=$(cat "$status")
  total=$(tail -n 1 "$status.log" |
    sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p')
  if [ -z "$total" ]; then
    echo "FAIL $command: ended with status $code and no count"
    total='0 1 0'
  elif [ "$code" -ne 0 ] && [ "${total#* 0 }" != "$total" ]; then
    echo "FAIL $command: status $code"
    total="${total%% *} 1 ${total##* }"
  fi
  set -- $total
  passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
done

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
