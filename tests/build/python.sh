#!/bin/sh
# python.sh numpy|any SCRIPT ARGUMENT...: runs a test script with the first Python that has NumPy, or
# else (any) with any Python, or skips it.
need=$1; shift
for module in numpy sys; do
  for python in "${PYTHON:-python3}" python3 /usr/bin/python3; do
    if $python -c "import $module" >/dev/null 2>&1; then exec $python -B "$@"; fi
  done
  if [ "$need" = numpy ]; then break; fi
done
case $need in
  numpy) echo "SKIP $1: no Python with NumPy" ;;
  *) echo "SKIP $1: no Python" ;;
esac
echo '0 passed, 0 failed, 1 skipped'
