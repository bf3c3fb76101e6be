/*
 * A CUDA runtime whose kernels do nothing: memory of the device is memory, copies are made,
 * launches are looked at. With it tests/build/cuda_copies.sh runs the host's part of gpured_cuda.cu
 * where there is no GPU: statuses, what is copied to where, memory given back. Whatever a caller of
 * the runtime does wrong ends the program with a line that says so.
 *
 * With HOPPER defined it is a GPU of that generation, and what lies beyond PRETENDED is memory of
 * its that nobody has: tensors may be as large as they like (cuda_queries.c).
 */
#include <cuda_runtime_api.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 4096, KERNELS = 4096, STATIC_SHARED = 48 * 1024 };
#ifdef HOPPER
enum { MAJOR = 9, PROCESSORS = 132, MOST_SHARED = 227 * 1024 };
#else
enum { MAJOR = 8, PROCESSORS = 108, MOST_SHARED = 160 * 1024 };
#endif
static const uintptr_t PRETENDED = (uintptr_t)1 << 56;

typedef struct block {
  char *start;
  size_t bytes;
  int pinned;
} block;

static block blocks[BLOCKS];
static const void *allowed[KERNELS];
static int count, allowed_count, streams, events;
static char symbols[4 << 20]; /* all of the backend's variables on the device */

static void wrong(const char *what) {
  fprintf(stderr, "cuda_copies: %s\n", what);
  abort();
}

static const block *holds(const void *p, size_t bytes) {
  const char *at = (const char *)p;
  int i;
  for (i = 0; i < count; ++i)
    if (at >= blocks[i].start && at + bytes <= blocks[i].start + blocks[i].bytes) return &blocks[i];
  return NULL;
}

static int on_device(const void *p, size_t bytes) {
  const block *b = holds(p, bytes);
  const char *at = (const char *)p;
  return (b && !b->pinned) || (at >= symbols && at + bytes <= symbols + sizeof symbols);
}

static int is_pretended(const void *p) { return MAJOR == 9 && (uintptr_t)p >= PRETENDED; }

static cudaError_t take(void **p, size_t bytes, int pinned) {
  if (count == BLOCKS) wrong("too many blocks at a time");
  if (bytes == 0) wrong("an allocation of nothing");
  *p = aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (!*p) return cudaErrorMemoryAllocation;
  memset(*p, 0x5c, bytes);
  blocks[count].start = (char *)*p;
  blocks[count].bytes = bytes;
  blocks[count++].pinned = pinned;
  return cudaSuccess;
}

static cudaError_t give(void *p, int pinned) {
  int i;
  for (i = 0; i < count && blocks[i].start != (char *)p; ++i) continue;
  if (i == count || blocks[i].pinned != pinned) wrong("what is given back was never taken");
  free(p);
  blocks[i] = blocks[--count];
  return cudaSuccess;
}

/* What is left at the end: the ring of pinned memory and its events alone, which calls leave to
 * each other. */
static void look_at_the_end(void) {
  int i;
  int kept = count > 1 || events > 8 || streams > 0;
  for (i = 0; i < count; ++i) kept |= !blocks[i].pinned;
  if (!kept) return;
  fprintf(stderr, "cuda_copies: %d blocks, %d events and %d streams were kept\n", count, events,
          streams);
  _Exit(99);
}

/* ---- what nvcc puts into every object ---- */
void **__cudaRegisterFatBinary(void *binary);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
char __cudaInitModule(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                            int threads, void *tid, void *bid, void *block, void *grid, int *size);
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext,
                       size_t size, int constant, int global);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments,
                               size_t shared, cudaStream_t stream);
unsigned __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);

void **__cudaRegisterFatBinary(void *binary) {
  static void *handle;
  (void)binary;
  atexit(look_at_the_end);
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }
void __cudaUnregisterFatBinary(void **handle) { (void)handle; }
char __cudaInitModule(void **handle) { return (void)handle, 1; }
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                            int threads, void *tid, void *bid, void *block, void *grid, int *size) {
  (void)handle, (void)host, (void)device, (void)name, (void)threads, (void)tid, (void)bid;
  (void)block, (void)grid, (void)size;
}
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext,
                       size_t size, int constant, int global) {
  (void)handle, (void)host, (void)device, (void)name, (void)ext, (void)constant, (void)global;
  if (size > sizeof symbols) wrong("a variable larger than all of them");
}
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host) {
  (void)kernel, (void)host;
  wrong("a launch by <<<>>>");
  return cudaErrorUnknown;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments,
                               size_t shared, cudaStream_t stream) {
  (void)kernel, (void)grid, (void)block, (void)arguments, (void)shared, (void)stream;
  wrong("a launch by <<<>>>");
  return cudaErrorUnknown;
}
unsigned __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
  (void)grid, (void)block, (void)shared, (void)stream;
  return 0;
}

/* ---- devices ---- */
cudaError_t cudaGetDevice(int *device) { return *device = 0, cudaSuccess; }
cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidDevice; }
cudaError_t cudaGetDeviceCount(int *devices) { return *devices = 1, cudaSuccess; }
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr which, int device) {
  (void)device;
  *value = which == cudaDevAttrMultiProcessorCount            ? PROCESSORS
           : which == cudaDevAttrComputeCapabilityMajor       ? MAJOR
           : which == cudaDevAttrMaxSharedMemoryPerBlockOptin ? MOST_SHARED
                                                              : 0;
  return cudaSuccess;
}
cudaError_t cudaGetLastError(void) { return cudaSuccess; }
cudaError_t cudaGetSymbolAddress(void **p, const void *symbol) {
  (void)symbol;
  return *p = symbols, cudaSuccess;
}
/* For whatever arguments: every map of a tensor that does not begin at 16 bytes is refused. */
static int encode(void *map, int type, unsigned axes, void *address) {
  (void)map, (void)type, (void)axes;
  return (uintptr_t)address % 16 ? 1 : 0;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **p, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *result) {
  (void)symbol, (void)version, (void)flags;
  if (MAJOR < 9) return cudaErrorNotSupported;
  *result = cudaDriverEntryPointSuccess;
  *p = (void *)(uintptr_t)encode;
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *a, const void *p) {
  const block *b = holds(p, 1);
  memset(a, 0, sizeof *a);
  a->type = !b ? cudaMemoryTypeUnregistered : b->pinned ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
  if (is_pretended(p)) a->type = cudaMemoryTypeDevice;
  return cudaSuccess;
}

/* ---- memory ---- */
cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned flags) {
  (void)flags;
  return take(p, bytes, 1);
}
cudaError_t cudaFreeHost(void *p) { return give(p, 1); }
cudaError_t cudaMallocAsync(void **p, size_t bytes, cudaStream_t stream) {
  (void)stream;
  return take(p, bytes, 0);
}
cudaError_t cudaFreeAsync(void *p, cudaStream_t stream) {
  (void)stream;
  return give(p, 0);
}
cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *properties) {
  (void)properties;
  return *pool = (cudaMemPool_t)(void *)blocks, cudaSuccess;
}
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) { return (void)pool, cudaSuccess; }
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr which, void *value) {
  (void)pool, (void)which, (void)value;
  return cudaSuccess;
}
cudaError_t cudaMallocFromPoolAsync(void **p, size_t bytes, cudaMemPool_t pool,
                                    cudaStream_t stream) {
  (void)pool, (void)stream;
  return take(p, bytes, 0);
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
  (void)stream;
  if ((kind == cudaMemcpyHostToDevice) != on_device(to, bytes)) wrong("a copy to the wrong side");
  if ((kind == cudaMemcpyDeviceToHost) != on_device(from, bytes))
    wrong("a copy from the wrong side");
  memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream) {
  (void)stream;
  if (is_pretended(p)) return cudaSuccess;
  if (!on_device(p, bytes)) wrong("a memset beyond the device's memory");
  memset(p, value, bytes);
  return cudaSuccess;
}

/* ---- streams, events ---- */
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
  (void)flags;
  ++streams;
  return *stream = (cudaStream_t)(void *)&streams, cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  (void)stream;
  return --streams, cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return (void)stream, cudaSuccess; }
cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long *id) {
  (void)stream;
  return *id = 1, cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status) {
  (void)stream;
  return *status = cudaStreamCaptureStatusNone, cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
  (void)flags;
  ++events;
  return *event = (cudaEvent_t)(void *)&events, cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  (void)event;
  return --events, cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  (void)event, (void)stream;
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) { return (void)event, cudaSuccess; }

/* ---- launches ---- */
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *a, const void *kernel) {
  (void)kernel;
  memset(a, 0, sizeof *a);
  a->maxThreadsPerBlock = MAJOR == 9 ? 1024 : 0;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute which, int value) {
  if (which != cudaFuncAttributeMaxDynamicSharedMemorySize || value > MOST_SHARED)
    wrong("an attribute that the device does not have");
  if (allowed_count == KERNELS) wrong("too many kernels");
  allowed[allowed_count++] = kernel;
  return cudaSuccess;
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *kernel,
                                void **arguments) {
  const dim3 grid = config->gridDim, block = config->blockDim;
  size_t most = STATIC_SHARED;
  int i;
  for (i = 0; i < allowed_count; ++i)
    if (allowed[i] == kernel) most = MOST_SHARED;
  if (!kernel || !arguments) wrong("a launch of nothing");
  if (grid.x < 1 || grid.x > INT32_MAX || grid.y != 1 || grid.z != 1)
    wrong("a launch of too many blocks, or none");
  if (block.x < 1 || block.x * block.y * block.z > 1024) wrong("a block of too many threads");
  if (config->dynamicSmemBytes > most) wrong("more shared memory than the kernel was allowed");
  return cudaSuccess;
}
