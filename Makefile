# How gpured's library, tests and examples are built (GNU make 4). `make help` lists targets and
# variables. The flags a user gives in CC, CPPFLAGS, CFLAGS, LDFLAGS and LDLIBS are used as they are
# and come after ours; nothing is written outside BUILD (make plots aside), so the sources may be
# read-only.

BUILD      ?= build
PREFIX     ?= /usr/local
LIBDIR     ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
BINDIR     ?= $(PREFIX)/bin
PKGCONFDIR ?= $(LIBDIR)/pkgconfig
MANDIR     ?= $(PREFIX)/share/man
CFLAGS     ?= -O2
CXXFLAGS   ?= $(CFLAGS)
OPENMP     ?= auto
CUDA       ?= auto
WERROR     ?= 1
INSTALL    ?= install
DOXYGEN    ?= doxygen
PARTS      ?= suite golden npy examples build docs

.PHONY: all lib test test-slow check-golden test-qemu test-flags fuzz fuzz-cuda soak demo bench plots docs install \
  install-tools uninstall clean help format-check
.PHONY: coverage mutate lint test-sanitizers test-host-side
.DELETE_ON_ERROR:
.SUFFIXES:
all:

# --- version: the header is its only place ---------------------------------------------------------
version_of = $(shell sed -n 's/^.define GPURED_VERSION_$(1)  *\([0-9][0-9]*\).*/\1/p' gpured.h)
MAJOR   := $(call version_of,MAJOR)
VERSION := $(MAJOR).$(call version_of,MINOR).$(call version_of,PATCH)

LIB_A  := $(BUILD)/libgpured.a
SONAME := libgpured.so.$(MAJOR)
LIB_SO := $(BUILD)/libgpured.so.$(VERSION)

# --- what is there to build --------------------------------------------------------------------------
# An example is one file and one program; npy.c makes the tool that is installed. In tests/, the files
# that are no part of the suite (golden_*.c, npy_*.c) have a main of their own.
program_of   = $(patsubst npy,gpured-npy,$(basename $(notdir $(1))))
EXAMPLES    := $(foreach f,$(wildcard examples/*.c),$(BUILD)/examples/$(call program_of,$(f)))
NPY         := $(filter %/gpured-npy,$(EXAMPLES))
ALONE_SRC   := $(wildcard tests/golden_*.c tests/npy_*.c)
SOAK_SRC    := $(wildcard tests/cuda_soak.c)
SUITE_SRC   := $(filter-out $(ALONE_SRC) $(SOAK_SRC),$(wildcard tests/*.c)) $(wildcard tests/test_*.cpp)
BENCH_SRC   := $(wildcard bench/*.c)
SUITE       := $(BUILD)/tests/suite
ALONE       := $(ALONE_SRC:%.c=$(BUILD)/%)
BENCH       := $(BUILD)/bench/gpured-bench

# --- the compilers, asked once -----------------------------------------------------------------------
# Targets that build nothing need no answers (and work without a compiler).
BUILDS_NOTHING := docs plots clean help uninstall format-check
ifneq ($(filter-out $(BUILDS_NOTHING),$(or $(MAKECMDGOALS),all)),)

ifeq ($(filter 0 1,$(WERROR)),)
$(error WERROR=$(WERROR): must be 0 or 1)
endif
ifeq ($(filter auto 0 1,$(OPENMP)),)
$(error OPENMP=$(OPENMP): must be auto, 0 or 1)
endif
ifeq ($(filter auto 0 1,$(CUDA)),)
$(error CUDA=$(CUDA): must be auto, 0 or 1)
endif

# Can $(1) compile and link the program $(2) with the flags $(3)? 1 or 0.
can_link = $(shell d=$$(mktemp -d) && printf '$(2)' >$$d/probe.$(4) && \
  $(1) $(CPPFLAGS) $(3) $(LDFLAGS) $$d/probe.$(4) -o $$d/probe >/dev/null 2>&1 && echo 1 || echo 0; \
  rm -rf "$$d")
OMP_PROGRAM := \043include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n

ifneq ($(OPENMP),0)
  HAVE_OPENMP := $(call can_link,$(CC),$(OMP_PROGRAM),$(CFLAGS) -fopenmp,c)
  ifeq ($(OPENMP)$(HAVE_OPENMP),10)
    $(error OPENMP=1: $(CC) cannot compile and link a program with -fopenmp)
  endif
endif
OMPFLAG := $(if $(filter 1,$(HAVE_OPENMP)),-fopenmp)

# The suite takes the place of malloc, to let it fail, where the linker can do that.
HEAP     := malloc calloc realloc aligned_alloc posix_memalign free
WRAPFLAG := $(HEAP:%=-Wl,--wrap=%)
WRAP_PROGRAM := void *__wrap_malloc(void) { return 0; }\nint main(void) { return 0; }\n
HAVE_WRAP := $(call can_link,$(CC),$(WRAP_PROGRAM),$(CFLAGS) $(WRAPFLAG),c)

HAVE_CXX := $(if $(filter %.cpp,$(SUITE_SRC)),$(call can_link,$(CXX),int main() { return 0; }\n,$(CXXFLAGS),cpp))

# The CUDA backend is one more source file and one macro. auto builds it where both the file and a
# compiler for it are found.
ifneq ($(CUDA),0)
  NVCC ?= $(or $(shell command -v nvcc 2>/dev/null),$(if $(CUDA_HOME),$(wildcard $(CUDA_HOME)/bin/nvcc)))
  CUDA_SRC := $(wildcard gpured_cuda.cu)
  ifeq ($(CUDA),1)
    ifeq ($(CUDA_SRC),)
      $(error CUDA=1: gpured_cuda.cu is not in this folder)
    endif
    ifeq ($(NVCC),)
      $(error CUDA=1: nvcc is neither on PATH nor in CUDA_HOME/bin)
    endif
  endif
  HAVE_CUDA := $(if $(CUDA_SRC),$(if $(NVCC),1))
endif
endif

# --- flags -------------------------------------------------------------------------------------------
# The library hides everything but the functions that GPURED_API marks. The tests switch contraction
# off after the user's flags: the oracle must keep each rounding that docs/ORDER.md asks for.
WARNINGS := -Wall -Wextra -Wconversion -Wsign-conversion -pedantic $(if $(filter 1,$(WERROR)),-Werror)
DEPS      = -MMD -MP -MF $(BUILD)/obj/$(subst /,-,$(1)).d -MT $@
LIB_CC    = $(CC) -std=c99 $(WARNINGS) -fPIC -fvisibility=hidden $(OMPFLAG) $(CPPFLAGS) $(CFLAGS)
PROG_CC   = $(CC) -std=c11 $(WARNINGS) -I. $(OMPFLAG) $(CPPFLAGS) $(CFLAGS)
TEST_CC   = $(PROG_CC) -ffp-contract=off
TEST_CXX  = $(CXX) -std=c++11 $(WARNINGS) -I. $(OMPFLAG) $(CPPFLAGS) $(CXXFLAGS) -ffp-contract=off
LIBS      = $(LDLIBS) -lm

ifeq ($(HAVE_CUDA),1)
  CUDADIR    := $(abspath $(dir $(NVCC))..)
  CUDALIBDIR ?= $(firstword $(wildcard $(CUDADIR)/lib64) $(CUDADIR)/lib)
  CUDA_OBJ   := $(BUILD)/obj/gpured_cuda.o
  NVCCFLAGS  ?= -O2
  # Machine code for the GPUs that are there; without one for these, and PTX for what comes after
  # them. Hopper's matrix instructions exist in sm_90a alone, of which there is no PTX for others.
  GPUS       := $(sort $(subst .,,$(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null)))
  CUDA_ARCHS ?= native
  ARCHS      := $(if $(filter native,$(CUDA_ARCHS)),$(or $(filter-out %a %A,$(GPUS)),80 90),$(CUDA_ARCHS))
  ARCHS      := $(patsubst 90,90a,$(ARCHS))
  PTX_ARCH   := $(lastword $(filter-out %a,$(ARCHS)))
  NVCC_ARCH  := $(foreach a,$(ARCHS),-gencode=arch=compute_$(a),code=sm_$(a)) \
                $(foreach a,$(PTX_ARCH),-gencode=arch=compute_$(a),code=compute_$(a))
  CUDA_PARTS := $(shell seq 0 $$(($$(sed -n 's/^.define GPURED__PARTS //p' gpured_cuda.cu) - 1)))
  # As many at a time as there are processors, and 2 GB of memory for each.
  CUDA_JOBS  ?= $(shell awk -v n="$$(nproc)" '/^MemTotal/ { m = int($$2 / 2e6) } \
                  END { print m < 1 ? 1 : m < n ? m : n }' /proc/meminfo)
  OBJCOPY    ?= objcopy
  NVCC_HOST  := -Xcompiler -fPIC,-fvisibility=hidden,-fno-exceptions,-fno-rtti,-fno-threadsafe-statics
  NVCC_LIB    = $(NVCC) -std=c++17 --threads 0 $(NVCC_ARCH) -Xfatbin -compress-all $(NVCCFLAGS) \
                $(NVCC_HOST)
  LIB_CC     += -DGPURED_CUDA
  CUDA_LIBS  := -lcudart_static -ldl -lrt -lpthread
  LIBS       += -L$(CUDALIBDIR) $(CUDA_LIBS)
  TEST_CUDA  := -DTEST_CUDA -isystem $(CUDADIR)/include
  # The suite stands between the backend and the runtime, whose functions can then be made to fail.
  WRAPPED    := $(shell sed -n 's/^WRAP[_A-Z]*.\(cuda[A-Za-z]*\),.*/\1/p' tests/test_cuda_host.c)
  SUITE_LD   := $(WRAPPED:%=-Wl,--wrap=%)
endif
LIB_OBJ := $(BUILD)/obj/gpured_omp.o $(CUDA_OBJ)

# Of two files of the suite: the one that holds the implementation once more, whose text the library
# has had optimized already, and what the tests compare with.
TU2_CFLAGS    ?= -O0
ORACLE_CFLAGS ?=

# Objects made with other flags are never reused: everything depends on this file, which is rewritten
# only when one of the commands it holds has changed.
FLAGS := $(BUILD)/flags
ifneq ($(filter-out $(BUILDS_NOTHING),$(or $(MAKECMDGOALS),all)),)
  FLAGS_NOW := $(strip $(LIB_CC) $(PROG_CC) $(TEST_CXX) $(NVCC_LIB) $(TU2_CFLAGS) $(ORACLE_CFLAGS) $(LDFLAGS) $(LIBS))
  ifneq ($(FLAGS_NOW),$(if $(wildcard $(FLAGS)),$(strip $(file <$(FLAGS)))))
    $(shell mkdir -p $(BUILD))
    $(file >$(FLAGS),$(FLAGS_NOW))
  endif
endif

# --- the library -------------------------------------------------------------------------------------
lib: $(LIB_A) $(BUILD)/libgpured.so
all: lib $(EXAMPLES)

$(BUILD)/obj/gpured_omp.o: gpured_omp.c $(FLAGS)
	@mkdir -p $(@D)
	$(LIB_CC) $(call DEPS,$<) -c $< -o $@

# nvcc needs most of an hour, so the file is compiled in its parts, side by side. The names by
# which one part asks another become local: the object has one global name, as one of a whole would.
$(BUILD)/obj/gpured_cuda.o: gpured_cuda.cu gpured.h $(FLAGS)
	@mkdir -p $(@D)
	printf '%s\n' $(CUDA_PARTS) | xargs -P $(CUDA_JOBS) -I{} \
	  $(NVCC_LIB) -DGPURED_CUDA_PART={} -c gpured_cuda.cu -o $(@:.o=_{}.o)
	$(LD) -r $(CUDA_PARTS:%=$(@:.o=_%.o)) -o $@
	$(OBJCOPY) --keep-global-symbol=gpured__cuda_backend $@

$(LIB_A): $(LIB_OBJ)
	rm -f $@
	$(AR) rcs $@ $^

# -shared is last: of it, -pie and -no-pie, which a user may want for programs, the last one counts.
$(LIB_SO): $(LIB_OBJ)
	$(CC) -Wl,-soname,$(SONAME) $(OMPFLAG) $(CFLAGS) $(LDFLAGS) -shared $^ $(LIBS) -o $@

$(BUILD)/libgpured.so: $(LIB_SO)
	ln -sf $(<F) $(BUILD)/$(SONAME)
	ln -sf $(SONAME) $@

# --- examples, tests, benchmark ----------------------------------------------------------------------
$(BUILD)/examples/gpured-npy: examples/npy.c
$(filter-out $(NPY),$(EXAMPLES)): $(BUILD)/examples/%: examples/%.c
$(EXAMPLES): $(LIB_A) $(FLAGS)
	@mkdir -p $(@D) $(BUILD)/obj
	$(PROG_CC) $(call DEPS,$(filter %.c,$^)) $(filter %.c,$^) $(LIB_A) $(LDFLAGS) $(LIBS) -o $@

SUITE_CPP := $(if $(filter 1,$(HAVE_CXX)),$(filter %.cpp,$(SUITE_SRC)))
SUITE_OBJ := $(patsubst %.c,$(BUILD)/obj/%.o,$(filter %.c,$(SUITE_SRC))) \
             $(patsubst %.cpp,$(BUILD)/obj/%.cpp.o,$(SUITE_CPP))

$(BUILD)/obj/tests/%.o: tests/%.c $(FLAGS)
	@mkdir -p $(@D)
	$(TEST_CC) -pthread -DTEST_PTHREADS $(if $(filter 1,$(HAVE_WRAP)),-DTEST_WRAP) $(if $(SUITE_CPP),-DTEST_CXX) $(TEST_CUDA) $(if $(filter %_tu2.c,$<),$(TU2_CFLAGS)) $(if $(filter tests/oracle.c tests/util.c,$<),$(ORACLE_CFLAGS)) $(call DEPS,$<) -c $< -o $@

$(BUILD)/obj/tests/%.cpp.o: tests/%.cpp $(FLAGS)
	@mkdir -p $(@D)
	$(TEST_CXX) $(call DEPS,$<) -c $< -o $@

$(SUITE): $(SUITE_OBJ) $(LIB_A)
	@mkdir -p $(@D)
	$(if $(SUITE_CPP),$(CXX) $(CXXFLAGS),$(CC) $(CFLAGS)) $(OMPFLAG) -pthread $^ \
	  $(if $(filter 1,$(HAVE_WRAP)),$(WRAPFLAG)) $(SUITE_LD) $(LDFLAGS) $(LIBS) -o $@

$(BUILD)/tests/golden_make: $(BUILD)/obj/tests/oracle.o
$(ALONE): $(BUILD)/tests/%: tests/%.c $(LIB_A) $(FLAGS)
	@mkdir -p $(@D) $(BUILD)/obj
	$(TEST_CC) $(call DEPS,$<) $(filter %.c %.o,$^) $(LIB_A) $(LDFLAGS) $(LIBS) -o $@

# Needs a GPU, and as long as it is given.
SOAK := $(if $(HAVE_CUDA),$(BUILD)/tests/cuda_soak)
$(BUILD)/tests/cuda_soak: tests/cuda_soak.c $(LIB_A) $(FLAGS)
	@mkdir -p $(@D) $(BUILD)/obj
	$(TEST_CC) -pthread $(TEST_CUDA) $(call DEPS,$<) $< $(LIB_A) $(LDFLAGS) $(LIBS) -o $@

# The peers are loaded at run time, so that none of them is needed to build.
BENCHLIBS ?= -ldl
$(BENCH): $(BENCH_SRC) $(wildcard bench/*.h) gpured.h $(LIB_A) $(FLAGS)
	@mkdir -p $(@D)
	$(PROG_CC) $(filter %.c,$^) $(LIB_A) $(LDFLAGS) $(LIBS) $(BENCHLIBS) -o $@

# The GPU's rows, beside CUB, cuBLAS (loaded at run time too) and the memory's own speed.
CUDA_BENCH := $(if $(HAVE_CUDA),$(if $(wildcard bench/bench_cuda.cu),$(BUILD)/bench/gpured-bench-cuda))
$(BUILD)/bench/gpured-bench-cuda: bench/bench_cuda.cu bench/bench_cublas.h $(LIB_A) $(FLAGS)
	@mkdir -p $(@D)
	$(NVCC) -std=c++17 $(NVCC_ARCH) $(NVCCFLAGS) -DBENCH_PEERS $< $(LIB_A) \
	  $(if $(OMPFLAG),-Xcompiler $(OMPFLAG)) $(BENCHLIBS) -o $@

-include $(wildcard $(BUILD)/obj/*.d)

# --- fuzzing: clang's libFuzzer, with programs of its own flags ---------------------------------------
FUZZ      ?= reduce scan gemm_reduce gemm_reduce_ex args npy
FUZZ_CC   ?= clang
FUZZ_DIR  := $(BUILD)/fuzz
FUZZ_BIN  := $(FUZZ:%=$(FUZZ_DIR)/fuzz_%)
FUZZ_OBJ  := $(FUZZ_DIR)/fuzz.o $(FUZZ_DIR)/impl.o $(FUZZ_DIR)/util.o $(FUZZ_DIR)/oracle.o
FUZZ_SAN  := -fsanitize=address,undefined -fno-sanitize-recover=all
ifneq ($(filter fuzz,$(MAKECMDGOALS)),)
  FUZZ_PROGRAM := int LLVMFuzzerTestOneInput(const char *p, long n) { return p == 0 && n; }\n
  HAVE_FUZZ    := $(call can_link,$(FUZZ_CC),$(FUZZ_PROGRAM),-fsanitize=fuzzer $(FUZZ_SAN),c)
  FUZZ_OMP     := $(if $(filter 1,$(call can_link,$(FUZZ_CC),$(OMP_PROGRAM),-fopenmp,c)),-fopenmp)
endif
fuzz_cc = $(FUZZ_CC) -std=c11 $(WARNINGS) -I. -ffp-contract=off -gline-tables-only $(CPPFLAGS) \
          -MMD -MP -MF $(@:.o=.d) -c $< -o $@

$(FUZZ_DIR)/impl.o: tests/fuzz/impl.c tests/fuzz/kernels.ignore
	@mkdir -p $(@D)
	$(fuzz_cc) -O1 -Wno-pass-failed $(FUZZ_OMP) $(FUZZ_SAN) -fsanitize=fuzzer-no-link \
	  -fsanitize-ignorelist=tests/fuzz/kernels.ignore

$(FUZZ_DIR)/util.o $(FUZZ_DIR)/oracle.o: $(FUZZ_DIR)/%.o: tests/%.c
	@mkdir -p $(@D)
	$(fuzz_cc) -O2

$(FUZZ_DIR)/%.o: tests/fuzz/%.c
	@mkdir -p $(@D)
	$(fuzz_cc) -O1 $(FUZZ_SAN) -fsanitize=fuzzer-no-link

$(FUZZ_BIN): %: %.o $(FUZZ_OBJ)
	$(FUZZ_CC) -fsanitize=fuzzer $(FUZZ_SAN) $(FUZZ_OMP) $^ $(FUZZ_LDFLAGS) -lm -o $@

-include $(wildcard $(FUZZ_DIR)/*.d)

# The same cases on a GPU, without libFuzzer: RUNS of them for each call.
RUNS        ?= 100000
FUZZ_CUDA   := $(if $(HAVE_CUDA),$(patsubst %,$(FUZZ_DIR)/fuzz_cuda_%,reduce scan gemm_reduce_ex))
FUZZ_COMMON := $(wildcard tests/fuzz/cuda_main.c tests/fuzz/fuzz.c tests/fuzz/impl.c) \
               tests/util.c tests/oracle.c
$(FUZZ_CUDA): $(FUZZ_DIR)/fuzz_cuda_%: tests/fuzz/fuzz_%.c $(FUZZ_COMMON) $(CUDA_OBJ) $(FLAGS)
	@mkdir -p $(@D)
	$(TEST_CC) -DGPURED_CUDA -DGPURED_NO_SIMD $(filter %.c %.o,$^) $(LDFLAGS) $(LIBS) -o $@

# --- running -----------------------------------------------------------------------------------------
# Each part prints what it does and ends with "N passed, N failed, N skipped"; run.sh adds them up.
# TESTFLAGS go to the suite: parts of test names, --list, --slow.
PYTHON ?= python3
NM     ?= nm
# What the scripts of tests/build/ read, and what makes the makes that they start do the same as this.
export BUILD CC CXX AR CPPFLAGS CFLAGS CXXFLAGS LDFLAGS LDLIBS OPENMP CUDA WERROR NVCC NVCCFLAGS
export FUZZFLAGS MAKE NM PYTHON VERSION OMPFLAG HAVE_OPENMP HAVE_CUDA

part_suite   = '$(SUITE) $(TESTFLAGS)'
part_golden  = '$(BUILD)/tests/golden_check' $(if $(HAVE_CUDA),'$(BUILD)/tests/golden_check --cuda') \
               'sh tests/build/golden.sh'
part_npy     = 'sh tests/build/python.sh numpy tests/npy_check.py $(NPY)' \
               'sh tests/build/python.sh any tests/npy_damage.py $(NPY)' \
               'sh tests/build/python.sh numpy tests/npy_big.py $(NPY)' \
               'LIBS="$(LIBS)" sh tests/build/faults.sh'
part_examples = 'sh tests/build/examples.sh'
part_build   = 'LIBS="$(LIBS)" sh tests/build/header.sh' 'sh tests/build/symbols.sh' 'sh tests/build/install.sh' \
               'sh tests/build/tools.sh' 'sh tests/build/readme.sh' 'sh tests/build/ways.sh' 'sh tests/build/tutorial.sh' \
               'sh tests/build/makefile.sh' 'sh tests/build/plots.sh' 'sh tests/build/dlpack.sh' \
               'sh tests/build/python.sh numpy tests/dlpack_check.py examples/dlpack_ctypes.py \
                 $(BUILD)/libgpured.so'
part_docs    = 'sh tests/build/docs.sh'

test: all $(if $(filter suite,$(PARTS)),$(SUITE)) $(if $(filter golden,$(PARTS)),$(ALONE))
	@sh tests/build/run.sh $(foreach p,$(PARTS),$(part_$(p)))

test-slow:
	+@GPURED_SLOW=1 $(MAKE) --no-print-directory test TESTFLAGS='--slow $(TESTFLAGS)'

check-golden: $(ALONE)
	@sh tests/build/run.sh $(part_golden)

# The golden vectors under QEMU, for each cross compiler that is there.
test-qemu:
	@sh tests/build/run.sh 'sh tests/build/qemu.sh'

# The same under hostile compiler flags, and the self-test against broken builds. FULL=1: all of it.
test-flags:
	@sh tests/build/run.sh 'sh tests/build/flags.sh' 'sh tests/build/selftest.sh'

# Sanitizers that need a build of their own; Valgrind and (SANITIZERS=cuda) compute-sanitizer run the
# programs of this one. FULL=1: all tests.
SANITIZERS ?= thread memory integer valgrind
test-sanitizers: $(if $(filter valgrind cuda,$(SANITIZERS)),$(SUITE) $(BUILD)/tests/golden_check)
	@SANITIZERS='$(SANITIZERS)' sh tests/build/run.sh 'sh tests/build/sanitizers.sh'

# The host's part of the CUDA backend on a runtime that only copies: where there is nvcc, and no GPU.
test-host-side: $(CUDA_OBJ)
	@sh tests/build/run.sh 'sh tests/build/cuda_copies.sh'

SECONDS ?= $(if $(filter fuzz,$(MAKECMDGOALS)),60,600)
soak: $(SOAK)
	@$(if $(SOAK),$(SOAK) $(SECONDS),echo 'SKIP soak: the CUDA backend is not built in'; echo '0 passed, 0 failed, 1 skipped')

# Branch coverage of gpured.h, changes to it that the tests must notice, and what the linters say.
# MUTATEFLAGS: see python3 tests/mutate.py --help.
MUTATEFLAGS ?= --count 300 --jobs 2
coverage:
	@sh tests/build/coverage.sh

mutate:
	@$(PYTHON) tests/mutate.py --cc '$(CC)' $(MUTATEFLAGS)

lint:
	@sh tests/build/lint.sh

ifeq ($(HAVE_FUZZ),1)
fuzz: $(FUZZ_BIN)
	@sh tests/fuzz/run.sh '$(FUZZ_DIR)' tests/fuzz/corpus '$(FUZZ_DIR)/out' '$(SECONDS)' $(FUZZ)
else
fuzz:
	@echo 'SKIP fuzz: $(FUZZ_CC) has no libFuzzer'; echo '0 passed, 0 failed, 1 skipped'
endif

fuzz-cuda: $(FUZZ_CUDA)
	@sh tests/build/run.sh $(if $(FUZZ_CUDA),$(FUZZ_CUDA:%='% $(RUNS)'),\
	  'echo SKIP fuzz-cuda: the CUDA backend is not built in; echo 0 passed, 0 failed, 1 skipped')

demo: $(BUILD)/examples/demo
	@$(BUILD)/examples/demo examples/data

ifneq ($(filter 1,$(CUDA))$(BENCH_SRC),)
bench: $(if $(BENCH_SRC),$(BENCH)) $(if $(filter 1,$(CUDA)),$(CUDA_BENCH))
	@$(if $(BENCH_SRC),$(BENCH) $(BENCHFLAGS),:)
	@$(if $(filter 1,$(CUDA)),$(CUDA_BENCH) $(CUDA_BENCHFLAGS),:)
else
bench:
	@echo 'make bench: bench/ holds no C file, there is nothing to run' >&2; exit 1
endif

# The pictures of docs/PERFORMANCE.md, from the figures beside them.
GNUPLOT  ?= gnuplot
PLOTSDIR ?= docs/plots
plots:
	@command -v $(GNUPLOT) >/dev/null || { echo 'make plots: gnuplot is not installed' >&2; exit 1; }
	@for f in docs/plots/gpu.csv docs/plots/cpu.csv; do [ -f $$f ] || { \
	  echo "make plots: $$f is missing (docs/PERFORMANCE.md names the command that writes it)" >&2; \
	  exit 1; }; done
	@mkdir -p $(PLOTSDIR)
	$(GNUPLOT) -c docs/plots/plots.gp docs/plots $(PLOTSDIR)

format-check:
	clang-format --dry-run --Werror $(wildcard *.h *.c tests/*.h tests/*.c tests/*.cpp \
	  tests/build/*.c examples/*.h examples/*.c bench/*.h bench/*.c)

# --- documentation -----------------------------------------------------------------------------------
# gpured(3) is docs/gpured.3; the other pages, and the HTML, are made from the comments of gpured.h.
# Doxygen also links a page to the name of every field: those that are not gpured's go.
docs:
	@command -v $(DOXYGEN) >/dev/null || { echo 'make docs: $(DOXYGEN) is not there' >&2; exit 1; }
	rm -rf $(BUILD)/docs/html $(BUILD)/docs/man
	mkdir -p $(BUILD)/docs
	$(DOXYGEN) docs/Doxyfile
	cd $(BUILD)/docs/man/man3 && find . -type f ! -name 'gpured*' ! -name 'GPURED*' -exec rm {} +
	cp docs/gpured.3 $(BUILD)/docs/man/man3

# --- installing --------------------------------------------------------------------------------------
# Folders under PREFIX are written relative to it, so that pkg-config can move them.
under_prefix = $(patsubst $(PREFIX)/%,$${prefix}/%,$(1))
INSTALLED    = $(INCLUDEDIR)/gpured.h $(LIBDIR)/libgpured.a $(LIBDIR)/$(notdir $(LIB_SO)) \
               $(LIBDIR)/$(SONAME) $(LIBDIR)/libgpured.so $(PKGCONFDIR)/gpured.pc \
               $(MANDIR)/man3/gpured.3 $(BINDIR)/gpured-npy $(MANDIR)/man1/gpured-npy.1

install: lib
	mkdir -p $(addprefix $(DESTDIR),$(INCLUDEDIR) $(LIBDIR) $(PKGCONFDIR) $(MANDIR)/man3)
	$(INSTALL) -m 644 gpured.h $(DESTDIR)$(INCLUDEDIR)/gpured.h
	$(INSTALL) -m 644 $(LIB_A) $(DESTDIR)$(LIBDIR)/libgpured.a
	$(INSTALL) -m 755 $(LIB_SO) $(DESTDIR)$(LIBDIR)/$(notdir $(LIB_SO))
	ln -sf $(notdir $(LIB_SO)) $(DESTDIR)$(LIBDIR)/$(SONAME)
	ln -sf $(SONAME) $(DESTDIR)$(LIBDIR)/libgpured.so
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@INCLUDEDIR@|$(call under_prefix,$(INCLUDEDIR))|' \
	  -e 's|@LIBDIR@|$(call under_prefix,$(LIBDIR))|' -e 's|@VERSION@|$(VERSION)|' \
	  -e 's|@BACKENDS@|cpu$(if $(HAVE_CUDA), cuda)|' \
	  -e 's|@CUDALIBDIR@|$(if $(HAVE_CUDA),cudalibdir=$(CUDALIBDIR)\n)|' \
	  -e 's|@LIBS_PRIVATE@|$(strip $(OMPFLAG) $(if $(HAVE_CUDA),-L$${cudalibdir} $(CUDA_LIBS)) -lm)|' \
	  gpured.pc.in >$(DESTDIR)$(PKGCONFDIR)/gpured.pc
	chmod 644 $(DESTDIR)$(PKGCONFDIR)/gpured.pc
	$(INSTALL) -m 644 docs/gpured.3 $(DESTDIR)$(MANDIR)/man3/gpured.3

# The tool holds the static library: it needs nothing else that is installed.
install-tools: $(NPY)
	mkdir -p $(addprefix $(DESTDIR),$(BINDIR) $(MANDIR)/man1)
	$(INSTALL) -m 755 $(NPY) $(DESTDIR)$(BINDIR)/gpured-npy
	$(INSTALL) -m 644 docs/gpured-npy.1 $(DESTDIR)$(MANDIR)/man1/gpured-npy.1

uninstall:
	rm -f $(addprefix $(DESTDIR),$(INSTALLED))

# Removes what this file builds, by name, so that a BUILD which also holds other things loses nothing.
clean:
	rm -rf $(BUILD)/docs/html $(BUILD)/docs/man
	rm -f $(LIB_A) $(LIB_SO) $(BUILD)/$(SONAME) $(BUILD)/libgpured.so $(FLAGS) \
	  $(EXAMPLES) $(SUITE) $(ALONE) $(FUZZ_CUDA) $(BUILD)/tests/cuda_soak $(BENCH) $(BUILD)/bench/gpured-bench-cuda $(BUILD)/obj/*.o $(BUILD)/obj/*.d $(BUILD)/obj/tests/*.o
	rm -f $(FUZZ_BIN) $(FUZZ_DIR)/*.o $(FUZZ_DIR)/*.d
	@for d in /obj/tests /obj /examples /tests /bench /docs /fuzz ''; do \
	  if [ -d $(BUILD)$$d ]; then rmdir $(BUILD)$$d 2>/dev/null || :; fi; done

help:
	@echo 'gpured $(VERSION)'
	@echo
	@echo 'make [all]          the static and the shared library, the examples and gpured-npy'
	@echo 'make test           everything that is tested; PARTS="$(PARTS)" picks parts,'
	@echo '                    TESTFLAGS="scan argmax" tests of the suite by name'
	@echo 'make test-slow      the same with the tests that take minutes or gigabytes'
	@echo 'make check-golden   only the published vectors of tests/golden/'
	@echo 'make test-qemu      the same on other processors: cross compilers and QEMU'
	@echo 'make test-flags     the same under flags that could change bits; FULL=1, JOBS=2'
	@echo 'make test-sanitizers   races, unset values, undefined behaviour, Valgrind;'
	@echo '                    SANITIZERS="$(SANITIZERS)" picks some (cuda: on a GPU),'
	@echo '                    FULL=1 runs all tests'
	@echo 'make test-host-side the host part of the CUDA backend, without a GPU (needs nvcc)'
	@echo 'make fuzz           random cases for SECONDS=60 a target (libFuzzer); FUZZ="reduce npy"'
	@echo '                    picks targets, FUZZFLAGS go to libFuzzer'
	@echo 'make fuzz-cuda      RUNS=100000 random cases of each call on a GPU against the oracle'
	@echo 'make soak           mixed operations on four streams of a GPU for SECONDS=600'
	@echo 'make coverage       branch coverage of gpured.h by the tests (clang)'
	@echo 'make mutate         changes gpured.h in small ways and counts what the tests notice;'
	@echo '                    MUTATEFLAGS are the arguments of tests/mutate.py'
	@echo 'make lint           cppcheck, clang-tidy and gcc -fanalyzer'
	@echo 'make demo           runs the main job over a small real data set'
	@echo 'make bench          the benchmark (bench/); BENCHFLAGS are its arguments, and'
	@echo '                    CUDA_BENCHFLAGS those of the one for GPUs'
	@echo 'make plots          draws docs/plots/*.svg (or PLOTSDIR) from docs/plots/*.csv'
	@echo 'make docs           the API reference as HTML and manual pages, in BUILD/docs (Doxygen)'
	@echo 'make install        the library, into DESTDIR + PREFIX, LIBDIR, INCLUDEDIR, PKGCONFDIR'
	@echo 'make install-tools  gpured-npy and its man page, into DESTDIR + BINDIR, MANDIR'
	@echo 'make uninstall      removes what these two put there, with the same variables'
	@echo 'make clean          removes what was built'
	@echo 'make format-check   compares the sources with .clang-format'
	@echo
	@echo 'BUILD=build         folder of everything that is built'
	@echo 'PREFIX=/usr/local   LIBDIR=PREFIX/lib, INCLUDEDIR=PREFIX/include, BINDIR=PREFIX/bin,'
	@echo '                    PKGCONFDIR=LIBDIR/pkgconfig, MANDIR=PREFIX/share/man'
	@echo 'CC CXX CPPFLAGS CFLAGS CXXFLAGS LDFLAGS LDLIBS   as usual'
	@echo 'OPENMP=auto|0|1     threads on the CPU; auto: where the compiler can link them'
	@echo 'CUDA=0|1|auto       the CUDA backend; auto (default): where nvcc is there'
	@echo 'CUDA_ARCHS="80 90a"    GPUs to make code for; default: those that are there, or these'
	@echo 'CUDA_JOBS=N         parts of gpured_cuda.cu that are compiled at a time; default: as many as'
	@echo '                    there are processors, if each has 2 GB of memory'
	@echo 'WERROR=0            compiler warnings are no errors'
