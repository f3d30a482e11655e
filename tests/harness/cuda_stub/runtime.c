/* A CUDA runtime and driver without a GPU.
 *
 * It shows one V100 of 32 GB. Device memory is memory of the host that is never touched unless
 * something is copied into it, streams and events have nothing to wait for, and kernels do nothing.
 * What a program asks of its GPU is therefore real, and what its kernels would have computed is 0.
 *
 * It is preloaded, before PyTorch's own runtime, and bears the driver's soname, by which PyTorch
 * loads that. A function that is not here is that of the real runtime, which finds no GPU and says so.
 *
 * By the environment: CUDA_STUB_MEMORY, the card's memory in bytes.
 */
#define _GNU_SOURCE
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define PAGE 4096
#define LARGE (1 << 20)
#define MEMORY 34089730048ll /* of a V100 of 32 GB, by its own account */

static struct {
  long long launches; /* of kernels */
  long long waits;    /* of the program's own threads for the device */
  long long in;       /* copies from the host */
  long long out;      /* copies to the host */
  long long pageable; /* of those from the host, the ones from memory that is not pinned */
} counts;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long long memory, held;
static __thread int device;

__attribute__((constructor)) static void configure(void) {
  const char *given = getenv("CUDA_STUB_MEMORY");
  memory = given ? atoll(given) : MEMORY;
}

/* For the tests: all counts, in the order of the struct above. */
void cuda_stub_counts(long long *into) {
  pthread_mutex_lock(&lock);
  memcpy(into, &counts, sizeof counts);
  pthread_mutex_unlock(&lock);
}

static cudaError_t add(long long *count) {
  __atomic_add_fetch(count, 1, __ATOMIC_RELAXED);
  return cudaSuccess;
}

/* -- the device ------------------------------------------------------------------------------- */

cudaError_t cudaGetDeviceCount(int *count) { return *count = 1, cudaSuccess; }
cudaError_t cudaGetDevice(int *number) { return *number = device, cudaSuccess; }
cudaError_t cudaSetDevice(int number) { return device = number, cudaSuccess; }
cudaError_t cudaDriverGetVersion(int *version) { return *version = CUDART_VERSION, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int *version) { return *version = CUDART_VERSION, cudaSuccess; }
cudaError_t cudaGetLastError(void) { return cudaSuccess; }
cudaError_t cudaPeekAtLastError(void) { return cudaSuccess; }

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int number) {
  *properties = (struct cudaDeviceProp){
      .name = "Tesla V100-SXM2-32GB",
      .major = 7,
      .totalGlobalMem = memory,
      .multiProcessorCount = 80,
      .maxThreadsPerMultiProcessor = 2048,
      .maxBlocksPerMultiProcessor = 32,
      .maxThreadsPerBlock = 1024,
      .maxThreadsDim = {1024, 1024, 64},
      .maxGridSize = {2147483647, 65535, 65535},
      .warpSize = 32,
      .regsPerBlock = 65536,
      .regsPerMultiprocessor = 65536,
      .sharedMemPerBlock = 49152,
      .sharedMemPerBlockOptin = 98304,
      .sharedMemPerMultiprocessor = 98304,
      .l2CacheSize = 6291456,
      .pciBusID = 0x1a,
      .uuid.bytes = "one V100 of many",
  };
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int number) {
  switch (attribute) {
  case cudaDevAttrComputeCapabilityMajor: *value = 7; break;
  case cudaDevAttrMultiProcessorCount: *value = 80; break;
  case cudaDevAttrMaxThreadsPerMultiProcessor: *value = 2048; break;
  case cudaDevAttrMaxThreadsPerBlock: *value = 1024; break;
  case cudaDevAttrMaxSharedMemoryPerBlock: *value = 49152; break;
  case cudaDevAttrWarpSize: *value = 32; break;
  default: *value = 0;
  }
  return cudaSuccess;
}

/* -- memory ----------------------------------------------------------------------------------- */

/* Pages that were never written take none of the machine's. One page before an allocation knows
 * its length, and all of pinned memory are in a list. */
struct allocation {
  size_t length;
  struct allocation *next;
};
static struct allocation *pinned;

static void *allocate(size_t length) {
  int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  struct allocation *found = mmap(NULL, PAGE + length, PROT_READ | PROT_WRITE, how, -1, 0);
  if (found == MAP_FAILED) return NULL;
  found->length = length;
  return (char *)found + PAGE;
}

static struct allocation *of(void *address) { return (void *)((char *)address - PAGE); }

static int is_pinned(const void *address) {
  int found = 0;
  pthread_mutex_lock(&lock);
  for (struct allocation *each = pinned; each && !found; each = each->next) {
    const char *begin = (const char *)each + PAGE;
    found = (const char *)address >= begin && (const char *)address < begin + each->length;
  }
  pthread_mutex_unlock(&lock);
  return found;
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
  return *total = memory, *free = memory - held, cudaSuccess;
}

cudaError_t cudaMalloc(void **address, size_t length) {
  pthread_mutex_lock(&lock);
  int fits = held + (long long)length <= memory;
  if (fits) held += length;
  pthread_mutex_unlock(&lock);
  *address = fits ? allocate(length) : NULL;
  return *address ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFree(void *address) {
  if (!address) return cudaSuccess;
  struct allocation *gone = of(address);
  pthread_mutex_lock(&lock);
  held -= gone->length;
  pthread_mutex_unlock(&lock);
  munmap(gone, PAGE + gone->length);
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **address, size_t length, unsigned flags) {
  *address = allocate(length);
  if (!*address) return cudaErrorMemoryAllocation;
  pthread_mutex_lock(&lock);
  of(*address)->next = pinned;
  pinned = of(*address);
  pthread_mutex_unlock(&lock);
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void *address) {
  pthread_mutex_lock(&lock);
  struct allocation **link = &pinned;
  while (*link != of(address)) link = &(*link)->next;
  *link = of(address)->next;
  pthread_mutex_unlock(&lock);
  munmap(of(address), PAGE + of(address)->length);
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *found, const void *address) {
  enum cudaMemoryType type = is_pinned(address) ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
  *found = (struct cudaPointerAttributes){.type = type, .hostPointer = (void *)address};
  return cudaSuccess;
}

/* -- copies and waits ------------------------------------------------------------------------- */

/* The threads of a program's own are its first one and those of its backward passes. Those of gloo
 * also wait for the device, but nothing waits for them by that. */
static cudaError_t wait_for_device(void) {
  char name[16] = "";
  prctl(PR_GET_NAME, name);
  int own = gettid() == getpid() || !strncmp(name, "pt_autograd", 11);
  return own ? add(&counts.waits) : cudaSuccess;
}

cudaError_t cudaMemcpyAsync(
    void *to, const void *from, size_t length, enum cudaMemcpyKind kind, cudaStream_t stream) {
  if (kind == cudaMemcpyDeviceToHost) add(&counts.out);
  if (kind == cudaMemcpyHostToDevice) {
    add(&counts.in);
    if (!is_pinned(from)) add(&counts.pageable);
  }
  /* Large tensors have no values, and copies of them would take pages. */
  if (kind != cudaMemcpyDeviceToDevice || length <= LARGE) memmove(to, from, length);
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t length, enum cudaMemcpyKind kind) {
  cudaError_t code = cudaMemcpyAsync(to, from, length, kind, NULL);
  return code ? code : wait_for_device();
}

/* Zeros are given back to the kernel, so that large tensors of them take no pages. */
cudaError_t cudaMemsetAsync(void *to, int value, size_t length, cudaStream_t stream) {
  char *begin = (char *)(((size_t)to + PAGE - 1) / PAGE * PAGE);
  char *end = (char *)(((size_t)to + length) / PAGE * PAGE);
  if (value || begin >= end) {
    memset(to, value, length);
  } else {
    memset(to, 0, begin - (char *)to);
    madvise(begin, end - begin, MADV_DONTNEED);
    memset(end, 0, (char *)to + length - end);
  }
  return cudaSuccess;
}

cudaError_t cudaMemset(void *to, int value, size_t length) {
  return cudaMemsetAsync(to, value, length, NULL);
}

cudaError_t cudaDeviceSynchronize(void) { return wait_for_device(); }
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return wait_for_device(); }
cudaError_t cudaEventSynchronize(cudaEvent_t event) { return wait_for_device(); }

/* -- streams and events ----------------------------------------------------------------------- */

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  return *least = 0, *greatest = -5, cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority) {
  return *stream = malloc(1), cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) { return free(stream), cudaSuccess; }
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority) {
  return *priority = 0, cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status) {
  return *status = cudaStreamCaptureStatusNone, cudaSuccess;
}
cudaError_t cudaStreamGetCaptureInfo_v2(
    cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id,
    cudaGraph_t *graph, const cudaGraphNode_t **nodes, size_t *number) {
  return *status = cudaStreamCaptureStatusNone, cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) {
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
  return *event = malloc(1), cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) { return free(event), cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) { return cudaSuccess; }
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) { return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  return *milliseconds = 1, cudaSuccess;
}

/* -- kernels ---------------------------------------------------------------------------------- */

cudaError_t cudaLaunchKernel(
    const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t on) {
  return add(&counts.launches);
}
cudaError_t cudaLaunchKernelExC(
    const cudaLaunchConfig_t *config, const void *kernel, void **arguments) {
  return add(&counts.launches);
}
cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute attribute, int value) {
  return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *found, const void *kernel) {
  *found = (struct cudaFuncAttributes){
      .maxThreadsPerBlock = 1024, .numRegs = 32, .binaryVersion = 70, .ptxVersion = 70};
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *blocks, const void *kernel, int size, size_t shared, unsigned flags) {
  return *blocks = 2, cudaSuccess;
}

/* -- the driver, as far as PyTorch asks it for itself ------------------------------------------- */

int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int *version) { return *version = CUDART_VERSION, 0; }
int cuDeviceGetCount(int *count) { return *count = 1, 0; }
int cuDeviceGet(int *found, int number) { return *found = number, 0; }
int cuDevicePrimaryCtxGetState(int number, unsigned *flags, int *active) {
  return *flags = 0, *active = 1, 0;
}
