/* A libnvidia-ml.so.1 that reports what the file named by FAKE_NVML says, line by line a key and a
   value; the file is read anew at every call. Keys: driver, init (error of nvmlInit), gpus, lost (bit
   mask of GPUs), used (bytes), pid (of a process that uses them), temperature, ecc, retired, remap,
   xid0, xid1 (an error that GPU 0 or 1 reports, once). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, TIMEOUT = 10, GPU_IS_LOST = 15 };
enum { GPUS = 2 };
#define TOTAL (16ull << 30)

static const char *text(const char *key, char *value)
{
    char name[64];
    const char *path = getenv("FAKE_NVML");
    FILE *f = path ? fopen(path, "r") : NULL;
    const char *found = NULL;
    while (f && !found && fscanf(f, "%63s %127s", name, value) == 2)
        if (strcmp(name, key) == 0)
            found = value;
    if (f)
        fclose(f);
    return found;
}

static unsigned long long number(const char *key, unsigned long long otherwise)
{
    char value[128];
    const char *found = text(key, value);
    return found ? strtoull(found, NULL, 10) : otherwise;
}

/* A handle is the address of one of these. */
static char gpus[GPUS];

static int lost(const char *gpu) { return (number("lost", 0) >> (gpu - gpus)) & 1; }

int nvmlInit_v2(void) { return (int)number("init", OK); }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { return code == GPU_IS_LOST ? "GPU is lost" : "error"; }

int nvmlSystemGetDriverVersion(char *out, unsigned size)
{
    char value[128];
    const char *found = text("driver", value);
    snprintf(out, size, "%s", found ? found : "580.95.05");
    return OK;
}

int nvmlDeviceGetCount_v2(unsigned *count) { return *count = (unsigned)number("gpus", GPUS), OK; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **out)
{
    if (index >= GPUS)
        return INVALID_ARGUMENT;
    *out = &gpus[index];
    return lost(*out) ? GPU_IS_LOST : OK;
}

int nvmlDeviceGetUUID(char *gpu, char *out, unsigned size)
{
    snprintf(out, size, "GPU-%c0000000-0000-0000-0000-00000000000%d", 'a' + (int)(gpu - gpus), (int)(gpu - gpus));
    return OK;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **out)
{
    char own[64];
    for (char *gpu = gpus; gpu < gpus + number("gpus", GPUS); gpu++) {
        nvmlDeviceGetUUID(gpu, own, sizeof own);
        if (strcmp(own, uuid) == 0)
            return *out = gpu, lost(gpu) ? GPU_IS_LOST : OK;
    }
    return NOT_FOUND;
}

int nvmlDeviceGetName(char *gpu, char *out, unsigned size)
{
    (void)gpu;
    snprintf(out, size, "Fake GPU");
    return OK;
}

struct pci {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
};

int nvmlDeviceGetPciInfo_v3(char *gpu, struct pci *out)
{
    memset(out, 0, sizeof *out);
    out->bus = 0x3b + (unsigned)(gpu - gpus);
    return OK;
}

int nvmlDeviceGetMemoryInfo(char *gpu, unsigned long long *out /* total, free, used */)
{
    unsigned long long used = number("used", 0);
    out[0] = TOTAL, out[1] = TOTAL - used, out[2] = used;
    return lost(gpu) ? GPU_IS_LOST : OK;
}

struct process {
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance, compute_instance;
};

int nvmlDeviceGetComputeRunningProcesses_v3(char *gpu, unsigned *count, struct process *out)
{
    unsigned room = *count, pid = (unsigned)number("pid", 0);
    (void)gpu;
    if (!pid)
        return *count = 0, OK;
    *count = 2;
    if (room < 2)
        return INSUFFICIENT_SIZE;
    out[0] = (struct process){(unsigned)getpid(), 1 << 20, ~0u, ~0u};
    out[1] = (struct process){pid, number("used", 0), ~0u, ~0u};
    return OK;
}

int nvmlDeviceGetTemperature(char *gpu, int sensor, unsigned *out)
{
    (void)sensor;
    *out = (unsigned)number("temperature", 40);
    return lost(gpu) ? GPU_IS_LOST : OK;
}

int nvmlDeviceGetPowerUsage(char *gpu, unsigned *out)
{
    (void)gpu;
    *out = 123456;
    return OK;
}

int nvmlDeviceGetTotalEccErrors(char *gpu, int type, int counter, unsigned long long *out)
{
    (void)gpu;
    if (type != 1 || counter != 0) /* uncorrected, volatile */
        return INVALID_ARGUMENT;
    *out = number("ecc", 0);
    return OK;
}

int nvmlDeviceGetRetiredPagesPendingStatus(char *gpu, int *out) { return (void)gpu, *out = (int)number("retired", 0), OK; }

int nvmlDeviceGetRemappedRows(char *gpu, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed)
{
    (void)gpu;
    *corrected = 0, *uncorrected = 2, *pending = (unsigned)number("remap", 0), *failed = 0;
    return OK;
}

int nvmlDeviceGetUtilizationRates(char *gpu, unsigned *out) { return (void)gpu, (void)out, NOT_SUPPORTED; }

/* nvmlDeviceGetCurrentClocksThrottleReasons and nvmlDeviceGetClockInfo are missing, as from an old driver. */

struct event {
    void *gpu;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
};

static char *watched;

int nvmlEventSetCreate(void **out) { return *out = &watched, OK; }
int nvmlEventSetFree(void *set) { return (void)set, OK; }

int nvmlDeviceRegisterEvents(char *gpu, unsigned long long types, void *set)
{
    (void)set;
    watched = gpu;
    return lost(gpu) ? GPU_IS_LOST : types == 8 ? OK : NOT_SUPPORTED;
}

int nvmlEventSetWait_v2(void *set, struct event *out, unsigned milliseconds)
{
    static unsigned long long told;
    unsigned long long xid = number(watched == gpus ? "xid0" : "xid1", 0);
    (void)set;
    if (xid == told) {
        usleep(milliseconds * 1000);
        return TIMEOUT;
    }
    told = xid;
    *out = (struct event){watched, 8, xid, ~0u, ~0u};
    return OK;
}
