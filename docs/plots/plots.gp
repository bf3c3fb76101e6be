# The plots of docs/PERFORMANCE.md: gnuplot -c plots.gp FOLDER-OF-CSV FOLDER-OF-SVG (make plots).
# gpu.csv is what `gpured-bench-cuda --sweep --csv` prints, cpu.csv what `gpured-bench --sweep --csv`
# writes; the first line of each is a comment that names the machine.
gpu = ARG1 . "/gpu.csv"
cpu = ARG1 . "/cpu.csv"
open(name) = ARG2 . "/" . name . ".svg"
machine(file) = system("sed -n '1s/^# //p' '" . file . "'")

# --- looks: a white ground, so that dark pages change nothing; colours that colour-blind people tell
# apart, and dashes and points that differ as well
set terminal svg size 800,440 background "#ffffff" font "sans-serif,15"
set encoding utf8
set style line 1 lc rgb "#0072B2" lw 2.6 pt 7 ps 0.6                # gpured
set style line 2 lc rgb "#D55E00" lw 2.2 pt 5 ps 0.6 dt (14, 6)     # a peer
set style line 3 lc rgb "#555555" lw 2.0 dt (3, 5)                  # a ceiling
set style line 4 lc rgb "#009E73" lw 2.2 pt 9 ps 0.8 dt (18, 5, 3, 5)
set style line 9 lc rgb "#dddddd" lw 0.8
set grid ls 9
set border 3 lc rgb "#333333"
set tics nomirror
set key inside right bottom vertical Left reverse invert samplen 4 spacing 1.2
set yrange [0:*]

# --- the GPU's: the rows of a plot are those whose name starts with a prefix; the name ends with x
set datafile separator ","
rest(prefix) = strcol(1)[strlen(prefix) + 1:]
last(text) = real(text[strstrt(text, "x") + 1:])
x(prefix) = strstrt(strcol(1), prefix) == 1 ? last(rest(prefix)) : NaN
ratio(work, time) = time > 0 ? work / time : NaN
gbs(time) = ratio($3 * $2, time)
tflops(time) = ratio($6 * $2, time)
ceiling(name) = real(system("sed -n 's/^ceiling " . name . ",[^,]*,\\([^,]*\\),.*/\\1/p' '" . gpu . "'"))
headed(text) = text . "\n{/*0.85 " . machine(gpu) . "}"
set logscale x 2

set format x "2^{%L}"
set xlabel "elements (f32)"
set ylabel "GB/s, read and written"
set output open("gpu-reduce")
set title headed("Sum of an array")
plot ceiling("read") ls 3 title "plain read of 4 GB", \
  gpu using (x("sweep sum f32 flat ")):(gbs($5)) with linespoints ls 2 title "CUB", \
  gpu using (x("sweep sum f32 flat ")):3 with linespoints ls 1 title "gpured"

set output open("gpu-scan")
set title headed("Prefix sum of an array")
plot ceiling("copy") ls 3 title "plain copy of 4 GB", \
  gpu using (x("sweep scan f32 flat ")):(gbs($5)) with linespoints ls 2 title "CUB", \
  gpu using (x("sweep scan f32 flat ")):3 with linespoints ls 1 title "gpured"

set output open("gpu-rows")
set title headed("Reducing each row of a matrix of 2^{28} elements (f32)")
set xlabel "elements in a row"
plot ceiling("read") ls 3 title "plain read of 4 GB", \
  gpu using (x("sweep sum f32 rows ")):(gbs($5)) with linespoints ls 2 title "CUB, sum", \
  gpu using (x("sweep lse f32 rows ")):3 with linespoints ls 4 title "gpured, logsumexp", \
  gpu using (x("sweep sum f32 rows ")):3 with linespoints ls 1 title "gpured, sum"

set format x "%g"
set xlabel "K: products in each element of A B"
set ylabel "TFLOP/s"
do for [type in "bf16 f32"] {
  row = "sweep gemm " . type . " max 1x8192x8192x"
  set output open("gpu-gemm-" . type)
  set title headed("Maxima of the columns of A B, 8192 x K by K x 8192, " . type)
  plot gpu using (x(row)):(tflops($7)) with linespoints ls 3 pt 2 ps 0.6 title "cuBLAS, A B alone", \
    gpu using (x(row)):(tflops($9)) with linespoints ls 2 title "cuBLAS, then a reduction", \
    gpu using (x(row)):6 with linespoints ls 1 title "gpured, one call"
}

# --- the CPU's: the best rate of a kind of contender (gpured, peer, ceiling) for each number of
# threads. Names stand in quotes, since some hold a comma.
set datafile separator whitespace
best(row, kind) = "< awk -F '\"' 'index($1, \"" . row . "\") == 1 { split($3, f, \",\"); " . \
  "if (f[2] == \"" . kind . "\" && f[10] > top[f[3]]) top[f[3]] = f[10] } " . \
  "END { for (t = 1; t <= 64; ++t) if (t in top) print t, top[t] }' '" . cpu . "'"
most = real(system("awk -F '\"' '{ split($3, f, \",\"); if (f[3] > top) top = f[3] } END { print top }' '" . cpu . "'"))
rows = "reduce:f32:sum: scan:f32:sum: reduce:f32:logsumexp: gemm:f32:max:"
array names[4] = ["Sum of 2^{28} f32", "Prefix sum of 2^{28} f32", \
  "Logsumexp of 4096 rows of 4096 f32", "Column maxima of A B, 2048^3 f32"]
array tops[4] = ["plain read", "plain copy", "plain read", "multiply-adds alone"]

set terminal svg size 800,760 background "#ffffff" font "sans-serif,14"
set output open("cpu-threads")
set key left top
set offsets 0, 0, graph 0.5, 0 # room for the key
set xtics (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
set xlabel "threads"
set xrange [1:most * 1.03]
set multiplot layout 2,2 title machine(cpu)
do for [i = 1:4] {
  row = word(rows, i)
  set title names[i]
  set ylabel i < 4 ? "GB/s" : "GFLOP/s"
  plot best(row, "ceiling") with linespoints ls 3 pt 2 ps 0.6 title tops[i], \
    best(row, "peer") with linespoints ls 2 title "best peer", \
    best(row, "gpured") with linespoints ls 1 title "gpured"
}
unset multiplot
