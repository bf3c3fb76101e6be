#!/bin/sh
# The examples, as somebody meets them who tries them: what they say is compared with the same worked
# out by awk, wrong arguments and damaged files are refused in one line, and then nothing is written.
. tests/build/lib.sh
bin=$BUILD/examples data=examples/data out=$scratch/out
mkdir "$out"

# refused NAME TEXT COMMAND...: status 1, one line that says TEXT, and nothing in $out.
refused() {
  name=$1 text=$2; shift 2
  "$@" >"$scratch/stdout" 2>"$scratch/log"; code=$?
  same "$name: status" 1 "$code"
  same "$name: lines on stderr" 1 "$(grep -c '' "$scratch/log")"
  same "$name: says '$text'" yes \
    "$(grep -q -e "$text" "$scratch/log" && echo yes || cat "$scratch/log")"
  same "$name: left behind" '' "$(ls -A "$out")"
}
# On the GPU, if there is one, the same bytes: twin NAME WRITTEN COMMAND..., run without and with
# "cuda", leaves the same on stdout and in the file WRITTEN.
twin() {
  name=$1 written=$2; shift 2
  "$@" cpu >"$scratch/cpu.txt" 2>&1 && mv "$written" "$scratch/cpu.out"
  if "$@" cuda >"$scratch/cuda.txt" 2>&1; then
    check "$name: cuda says the same" cmp "$scratch/cpu.txt" "$scratch/cuda.txt"
    check "$name: cuda writes the same" cmp "$scratch/cpu.out" "$written"
    rm -f "$written"
  elif grep -q 'there is no device' "$scratch/cuda.txt"; then skip "$name: no CUDA"
  else fail "$name: cuda"; sed 's/^/  | /' "$scratch/cuda.txt"; fi
}
bytes() { od -A n -v -t u1 | tr -s ' ' '\n' | grep .; }
# The samples of the picture that the examples use, one on a line: 160 x 120 x 3 at the end.
samples() { tail -c 57600 "$1" | bytes; }

# ---- those that check themselves ------------------------------------------------------------------
for program in axis_sum prefix_sum demo; do check "$program" "$bin/$program"; done
gemm=$bin/batched_gemm_reduce
check 'batched_gemm_reduce, integers' "$gemm" 1 1 1 128 96 64 0 0 0 2
check 'batched_gemm_reduce, strides, C stored' "$gemm" 1 2 0 100 70 33 40 35 80 3
check 'batched_gemm_reduce, K = 1' "$gemm" 1 2 0 3 2 1 0 0 0 1
if "$gemm" 1 2 0 200 150 333 0 0 0 2 cuda >"$scratch/log" 2>&1; then pass
elif grep -q 'there is no device' "$scratch/log"; then skip 'batched_gemm_reduce: no CUDA'
else fail 'batched_gemm_reduce: cuda'; sed 's/^/  | /' "$scratch/log"; fi
refuses 'batched_gemm_reduce: M' "argument 4, '-1'" "$gemm" 1 1 1 -1 9 6 0 0 0 2
refuses 'batched_gemm_reduce: stride' 'StrideA 5' "$gemm" 1 1 1 8 9 6 5 0 0 2
refuses 'batched_gemm_reduce: count' 'usage' "$gemm" 1 1

# ---- nearest ----------------------------------------------------------------------------------------
nearest=$bin/nearest iris=$data/iris.npy
check 'nearest' "$nearest"
cp "$scratch/log" "$scratch/nearest.txt"
# Rows 0, 50 and 100 are the centres. The header has 128 bytes; floats have their own byte order.
if [ "$(printf '\1\0\0\0' | od -A n -t u4 | tr -d ' ')" = 1 ]; then
  tail -c 2400 "$iris" | od -A n -v -t f4 | awk -v said="$scratch/nearest.txt" '
    { for (i = 1; i <= 4; ++i) x[NR - 1, i] = $i }
    END {
      for (p = 0; p < 150; ++p) {
        for (k = best = 0; k < 3; ++k) {
          square[k] = 0
          for (i = 1; i <= 4; ++i) square[k] += (x[p, i] - x[50 * k, i]) ^ 2
          if (square[k] < square[best]) best = k
        }
        getline line <said
        split(line, got, " ")
        off = got[2] - sqrt(square[best])
        if (got[1] != best || off > 2e-3 || off < -2e-3) print p ": " line, "not", best, off
      }
    }' >"$scratch/wrong" 2>&1
  same 'nearest: as awk finds it' '' "$(cat "$scratch/wrong")"
else
  skip 'nearest: od would read the floats in another byte order'
fi
same 'nearest: points of each centre' '53 60 37 ' \
  "$(sed -n 's/^# centre .: \([0-9]*\) points.*/\1/p' "$scratch/nearest.txt" | tr '\n' ' ')"
check 'nearest: the points are the centres' "$nearest" "$iris" "$iris"
# Flower 142 is flower 101 again: every other one is its own centre.
same 'nearest: itself' 149 "$(grep -v '^#' "$scratch/log" | awk '$1 == NR - 1' | grep -c '')"
check 'nearest: files' "$nearest" "$iris" 7 "$out/i.npy" "$out/d.npy"
same 'nearest: indices' 6 "$("$bin/gpured-npy" reduce max "$out/i.npy")"
same 'nearest: distances' 150 "$("$bin/gpured-npy" info "$out/d.npy" | grep -o -w 150 | head -n 1)"
for threads in 1 3; do
  OMP_NUM_THREADS=$threads "$nearest" "$iris" 7 "$scratch/i.npy" "$scratch/d.npy" >"$scratch/log"
  check "nearest: $threads threads" cmp "$out/d.npy" "$scratch/d.npy"
done
rm "$out"/*
twin 'nearest' "$out/d.npy" "$nearest" "$iris" 7 "$scratch/i.npy" "$out/d.npy"

# The header of a matrix of the given shape; the data is what follows on stdin.
npy() {
  { printf '\223NUMPY\1\0\166\0'
    printf "%-117s\n" "{'descr': '$1', 'fortran_order': False, 'shape': $2, }"; cat; } >"$scratch/$3"
}
head -c 1000 "$iris" >"$scratch/short.npy"
printf '\0\0\300\177\0\0\0\0' | npy '<f4' '(2, 1)' nan.npy
printf '\0\0\200\177\0\0\0\0' | npy '<f4' '(2, 1)' inf.npy
printf '\0\0\0\177\0\0\0\177\0\0\0\377' | npy '<f4' '(3, 1)' huge.npy # 2^127: its square overflows
printf '\1\2\3\4\5\6' | npy '|u1' '(2, 3)' bytes.npy
printf '' | npy '<f4' '(0, 4)' empty.npy
printf '\0\0\0\0\0\0\360\77' | npy '<f8' '(1, 1)' one.npy
check 'nearest: integers' "$nearest" "$scratch/bytes.npy" 1
check 'nearest: float64' "$nearest" "$scratch/one.npy" 1
to="$out/i.npy"
refused 'nearest: no such file' 'cannot open' "$nearest" "$scratch/none.npy" 3 "$to"
refused 'nearest: a short file' 'truncated' "$nearest" "$scratch/short.npy" 3 "$to"
refused 'nearest: no .npy' 'npy' "$nearest" "$data/picture.ppm" 3 "$to"
refused 'nearest: one axis' 'not a matrix' "$nearest" "$data/iris_species.npy" 3 "$to"
refused 'nearest: no points' 'not a matrix' "$nearest" "$scratch/empty.npy" 1 "$to"
refused 'nearest: NaN' 'not finite' "$nearest" "$scratch/nan.npy" 1 "$to"
refused 'nearest: infinity' 'not finite' "$nearest" "$scratch/inf.npy" 1 "$to"
refused 'nearest: squares overflow' 'too large' "$nearest" "$scratch/huge.npy" 1 "$to"
refused 'nearest: other centres' 'as many coordinates' "$nearest" "$iris" "$scratch/bytes.npy" "$to"
refused 'nearest: damaged centres' 'truncated' "$nearest" "$iris" "$scratch/short.npy" "$to"
for k in 0 151 3x 99999999999999999999; do
  refused "nearest: K = $k" 'number of centres' "$nearest" "$iris" $k "$to"
done
refused 'nearest: no such folder' 'i.npy' "$nearest" "$iris" 3 "$out/none/i.npy"
refused 'nearest: one file twice' 'twice' "$nearest" "$iris" 3 "$to" "$to"
refuses 'nearest: an option' 'usage' "$nearest" --help

# ---- kmeans_palette ---------------------------------------------------------------------------------
palette=$bin/kmeans_palette picture=$data/picture.ppm
check 'kmeans_palette' "$palette" "$out/a.ppm"
cp "$scratch/log" "$scratch/palette.txt"
same 'kmeans_palette: colours' 16 \
  "$(samples "$out/a.ppm" | paste - - - | sort -u | grep -c '')"
same 'kmeans_palette: the error falls' '' "$(sed -n 's/.* error \([0-9.]*\),.*/\1/p' \
  "$scratch/palette.txt" | awk 'NR > 1 && $1 > last { print } { last = $1 }')"
# The palette is rounded to whole numbers, which the error printed is not: at most 1/4 a sample more.
samples "$picture" >"$scratch/old.txt"
samples "$out/a.ppm" | paste "$scratch/old.txt" - | awk '{ s += ($1 - $2) ^ 2 } END { print s / NR }' \
  >"$scratch/error"
same 'kmeans_palette: the error, as awk finds it' yes \
  "$(sed -n '$ s/.* error \([0-9.]*\),.*/\1/p' "$scratch/palette.txt" | paste - "$scratch/error" |
    awk '{ print ($2 > $1 - 0.01 && $2 < $1 + 0.26 ? "yes" : $0) }')"
for threads in 1 3; do
  OMP_NUM_THREADS=$threads "$palette" "$scratch/b.ppm" >"$scratch/log"
  check "kmeans_palette: $threads threads" cmp "$out/a.ppm" "$scratch/b.ppm"
done
check 'kmeans_palette: one colour' "$palette" "$out/a.ppm" 1
same 'kmeans_palette: one colour is the mean' '95 93 111' \
  "$(samples "$out/a.ppm" | paste -d ' ' - - - | sort -u)"
rm "$out"/*
twin 'kmeans_palette' "$out/a.ppm" "$palette" "$out/a.ppm" 24
# With as many colours as a picture has, it stays as it is.
printf 'P6\n3 1\n255\n\0\1\2\377\376\375\0\1\2' >"$scratch/two.ppm"
printf 'P5\n2 2\n65535\n\1\2\377\376\0\0\1\2' >"$scratch/gray.pgm"
for file in two.ppm gray.pgm; do
  check "kmeans_palette: $file" "$palette" "$out/same" 4096 "$scratch/$file"
  check "kmeans_palette: $file: unchanged" cmp "$scratch/$file" "$out/same"
done
rm "$out"/*

# ---- pictures: both programs read and write them with pnm_io.h ------------------------------------------
check 'integral_image: radius 0 changes nothing' "$bin/integral_image" "$picture" "$out/a.ppm" 0
same 'integral_image: radius 0' "$(cksum <"$scratch/old.txt")" "$(samples "$out/a.ppm" | cksum)"
check 'integral_image' "$bin/integral_image" "$picture" "$out/a.ppm" 5
same 'integral_image: the first sample' \
  "$(awk '(NR - 1) % 3 == 0 { i = (NR - 1) / 3; if (i % 160 < 6 && i < 960) s += $1 }
    END { print int((s + 18) / 36) }' "$scratch/old.txt")" "$(samples "$out/a.ppm" | head -n 1)"
rm "$out"/*
: >"$scratch/empty.ppm"
head -c 5000 "$picture" >"$scratch/short.ppm"
printf 'P6\n3' >"$scratch/header.ppm"
printf 'P6\n3 1\n0\n123456789' >"$scratch/maxval.ppm"
printf 'P6\n99999999999 1\n255\n123456789' >"$scratch/wide.ppm"
printf 'P6\n2147483647 2147483647\n255\n123456789' >"$scratch/claims.ppm"
printf 'P5\n3 1\n49\n123' >"$scratch/sample.ppm"
printf 'P3\n1 1\n255\n1 2 3\n' >"$scratch/text.ppm"
for program in kmeans_palette integral_image; do
  convert() { # convert IN OUT
    if [ $program = integral_image ]; then "$bin/$program" "$1" "$2"; else "$palette" "$2" 4 "$1"; fi
  }
  refused "$program: no such file" 'none.ppm' convert "$scratch/none.ppm" "$out/a.ppm"
  refused "$program: a folder" "$scratch: " convert "$scratch" "$out/a.ppm"
  for case in empty:binary text:binary header:damaged maxval:damaged wide:damaged short:early \
    claims:early sample:larger; do
    refused "$program: ${case%:*}.ppm" "${case#*:}" convert "$scratch/${case%:*}.ppm" "$out/a.ppm"
  done
  refused "$program: no such folder" 'none/a.ppm' convert "$picture" "$out/none/a.ppm"
  refused "$program: not a file" 'is not a file' convert "$picture" /dev/null
  refuses "$program: no arguments" 'usage' "$bin/$program"
done
for k in 0 -1 4097 5x ''; do
  refuses "kmeans_palette: K = '$k'" 'usage' "$palette" "$out/a.ppm" "$k"
done
finish
