/* NVML as a machine with one GPU has it. The types are those of nvml.h; what is defined at compile
   time decides which calls it has and which GPU it knows. */
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* What is not defined is as a usual GPU and a usual driver have it. */
#ifndef DRIVER_LOADED
#define DRIVER_LOADED 1
#endif
#ifndef KNOWS_ADDRESS
#define KNOWS_ADDRESS 1
#endif
#ifndef KNOWS_UUID
#define KNOWS_UUID 1
#endif
#ifndef REASONS
#define REASONS nvmlDeviceGetCurrentClocksThrottleReasons
#endif
#ifndef PROCESSES
#define PROCESSES nvmlDeviceGetComputeRunningProcesses_v3
#endif
#ifndef MEMORY_V2 /* drivers before 510 have the first version alone */
#define MEMORY_V2 nvmlDeviceGetMemoryInfo_v2
#endif
#ifndef SM_CLOCK /* MHz; 0: the caller may not know */
#define SM_CLOCK 0
#endif
#ifndef HAS_ENERGY /* Volta and later count it */
#define HAS_ENERGY 1
#endif
#ifndef DIVIDED
#define DIVIDED 0
#endif
#ifndef HANGS /* the third question for power is never answered */
#define HANGS 0
#endif

typedef void *device_t;
enum { SUCCESS = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, NO_PERMISSION = 4, INSUFFICIENT_SIZE = 7, ARGUMENT_VERSION_MISMATCH = 25 };
static int gpu, users;

int nvmlInit_v2(void) { return DRIVER_LOADED ? (++users, SUCCESS) : 9; }
int nvmlInitWithFlags(unsigned int flags) { return flags ? NOT_SUPPORTED : nvmlInit_v2(); }
int nvmlShutdown(void) { return --users < 0 ? 1 : SUCCESS; }
int users_left(void) { return users; }

int nvmlSystemGetDriverVersion(char *text, unsigned int length) {
    if (length < 80) return NOT_SUPPORTED;
    strcpy(text, "570.1");
    return SUCCESS;
}
int nvmlDeviceGetCount_v2(unsigned int *found) { return *found = 1, SUCCESS; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, device_t *found) {
    if (index) return NOT_FOUND;
    *found = &gpu;
    return SUCCESS;
}
int nvmlDeviceGetUUID(device_t device, char *text, unsigned int length) {
    return device == &gpu && length > 8 ? strcpy(text, "GPU-8c6f"), SUCCESS : NOT_FOUND;
}
int nvmlDeviceGetName(device_t device, char *text, unsigned int length) {
    return device == &gpu && length > 20 ? strcpy(text, "Tesla V100-SXM2-32GB"), SUCCESS : NOT_FOUND;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char *id, device_t *found) {
    if (!KNOWS_ADDRESS || strcmp(id, "00000000:3b:00.0")) return NOT_FOUND;
    *found = &gpu;
    return SUCCESS;
}
int nvmlDeviceGetHandleByUUID(const char *id, device_t *found) {
    if (!KNOWS_UUID || strcmp(id, "GPU-8c6f")) return NOT_FOUND;
    *found = &gpu;
    return SUCCESS;
}
static int answer(device_t device, unsigned int *found, unsigned int value) {
    if (device != &gpu) return NOT_FOUND;
    *found = value;
    return SUCCESS;
}
int nvmlDeviceGetEccMode(device_t device, int *now, int *after_reboot) {
    *after_reboot = 0;
    return answer(device, (unsigned int *)now, 1);
}
int nvmlDeviceGetEnforcedPowerLimit(device_t device, unsigned int *found) {
    return answer(device, found, 300000);
}
int nvmlDeviceGetClockInfo(device_t device, unsigned int kind, unsigned int *found) {
    if (kind == 1 && !SM_CLOCK) return NO_PERMISSION;
    return answer(device, found, kind == 1 ? SM_CLOCK : 876);
}
int nvmlDeviceGetMaxClockInfo(device_t device, unsigned int kind, unsigned int *found) {
    return answer(device, found, kind == 1 ? 1530 : 877);
}
int nvmlDeviceGetCurrPcieLinkGeneration(device_t device, unsigned int *found) {
    return answer(device, found, 3);
}
int nvmlDeviceGetCurrPcieLinkWidth(device_t device, unsigned int *found) {
    return answer(device, found, 16);
}
/* Six links, one of them down. */
int nvmlDeviceGetNvLinkState(device_t device, unsigned int link, int *found) {
    return link < 6 ? answer(device, (unsigned int *)found, link != 2) : NOT_SUPPORTED;
}
int REASONS(device_t device, unsigned long long *found) {
    if (device != &gpu) return NOT_FOUND;
    *found = 1ULL << 40 | 4;
    return SUCCESS;
}

/* Work that changes from question to question, and energy that goes with time at 200 W. */
static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    return at.tv_sec + at.tv_nsec * 1e-9;
}
static unsigned int asked;
int nvmlDeviceGetUtilizationRates(device_t device, unsigned int found[2]) {
    found[1] = 7;
    return answer(device, &found[0], ++asked % 2 ? 80 : 100);
}
/* The driver has 400 MiB for itself, which the first version counts as used. */
int nvmlDeviceGetMemoryInfo(device_t device, unsigned long long found[3]) {
    found[0] = 1ULL << 34, found[1] = 1ULL << 33, found[2] = (3400ULL + asked) << 20;
    return device == &gpu ? SUCCESS : NOT_FOUND;
}
struct memory { unsigned int version; unsigned long long total, reserved, free, used; };
int MEMORY_V2(device_t device, struct memory *found) {
    if (found->version != (sizeof *found | 2 << 24)) return ARGUMENT_VERSION_MISMATCH;
    *found = (struct memory){found->version, 1ULL << 34, 400ULL << 20, 1ULL << 33, (3000ULL + asked) << 20};
    return device == &gpu ? SUCCESS : NOT_FOUND;
}
static volatile int times, woken;
int hanging(void) { return times >= 3; }
void wake(void) { woken = 1; }
int nvmlDeviceGetPowerUsage(device_t device, unsigned int *found) {
    if (HANGS && ++times == 3)
        while (!woken) usleep(1000);
    return answer(device, found, 200000);
}
int nvmlDeviceGetTotalEnergyConsumption(device_t device, unsigned long long *found) {
    *found = (unsigned long long)(now() * 200e3);
    return !HAS_ENERGY ? NOT_SUPPORTED : device == &gpu ? SUCCESS : NOT_FOUND;
}
int nvmlDeviceGetTemperature(device_t device, unsigned int sensor, unsigned int *found) {
    return sensor ? NOT_SUPPORTED : answer(device, found, 61);
}
int nvmlDeviceGetMigMode(device_t device, int *now, int *after_reboot) {
    *after_reboot = DIVIDED;
    return answer(device, (unsigned int *)now, DIVIDED);
}
/* Which processes compute; at first the one that asks. */
struct process { unsigned int pid; unsigned long long bytes; unsigned int instance, part; };
static unsigned int computing[2], computing_count;
void compute(unsigned int one, unsigned int other) {
    computing[0] = one, computing[1] = other, computing_count = 2;
}
int PROCESSES(device_t device, unsigned int *count, struct process *infos) {
    unsigned int known = computing_count ? computing_count : 1, room = *count;
    if (device != &gpu) return NOT_FOUND;
    *count = known;
    if (infos == NULL || room < known) return INSUFFICIENT_SIZE;
    for (unsigned int i = 0; i < known; i++)
        infos[i] = (struct process){computing_count ? computing[i] : (unsigned int)getpid(), 1 << 30, 0, 0};
    return SUCCESS;
}
