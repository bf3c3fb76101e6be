# shellcheck shell=sh
# What the build tests share: counting, and a scratch folder that goes away. Sourced, run from the
# folder of the Makefile with its exported variables (BUILD, CC, CXX, CFLAGS, OMPFLAG, VERSION, ...).
# Makes started here read the exported variables, not the command line of the make around them.
unset MAKEFLAGS MFLAGS MAKEOVERRIDES
passed=0 failed=0 skipped=0
scratch=$(mktemp -d)
trap 'chmod -R u+w "$scratch"; rm -rf "$scratch"' EXIT

pass() { passed=$((passed + 1)); }
skip() { skipped=$((skipped + 1)); echo "SKIP $1"; }
fail() { failed=$((failed + 1)); echo "FAIL $1"; }

# check NAME COMMAND...: the command must succeed; what it printed is shown if it does not.
check() {
  name=$1; shift
  if "$@" >"$scratch/log" 2>&1; then pass; else fail "$name"; sed 's/^/  | /' "$scratch/log"; fi
}

# refuses NAME TEXT COMMAND...: the command must fail and say TEXT.
refuses() {
  name=$1 text=$2; shift 2
  if "$@" >"$scratch/log" 2>&1; then fail "$name: was accepted"
  elif grep -q -e "$text" "$scratch/log"; then pass
  else fail "$name: failed without saying '$text'"; sed 's/^/  | /' "$scratch/log"; fi
}

# same NAME EXPECTED ACTUAL
same() {
  if [ "$2" = "$3" ]; then pass; else fail "$1: expected '$2', got '$3'"; fi
}

has_cxx() { printf 'int main() { return 0; }\n' >"$scratch/cxx.cpp" &&
  $CXX "$scratch/cxx.cpp" -o "$scratch/cxx" >/dev/null 2>&1; }

# A man that formats pages; some systems put one there that only says that there are none.
has_man() { man --version 2>/dev/null | grep -q '^man '; }

finish() {
  echo "$passed passed, $failed failed, $skipped skipped"
  [ "$failed" -eq 0 ]
  exit
}
