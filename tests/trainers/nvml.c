/* NVML as a machine with one GPU has it. The types are those of nvml.h; what is defined at compile
   time decides which calls it has and which GPU it knows. */
#include <string.h>

typedef void *device_t;
enum { SUCCESS = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, NO_PERMISSION = 4 };
static int gpu, users;

int nvmlInit_v2(void) { return DRIVER_LOADED ? (++users, SUCCESS) : 9; }
int nvmlShutdown(void) { return --users < 0 ? 1 : SUCCESS; }
int users_left(void) { return users; }

int nvmlSystemGetDriverVersion(char *text, unsigned int length) {
    if (length < 80) return NOT_SUPPORTED;
    strcpy(text, "570.1");
    return SUCCESS;
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
    return kind == 1 ? NO_PERMISSION : answer(device, found, 876);
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
