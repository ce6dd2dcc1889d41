//go:build cuda

/* gorgonia.org/cu ends the process when cuInit fails, as it does where the driver is older than its
   library or shows no GPU. Here cuInit succeeds, and the count of devices is its error, so that the
   binary can say so, or serve on the CPU. The pointers are those that the libcuda.a of tools/build/cuda.sh
   calls through, and its constructor, of priority 101, has set. */
extern void *pf_cuInit, *pf_cuDeviceGetCount;

static int (*driver_init)(unsigned);
static int status;

static int no_devices(int *count)
{
    (void)count;
    return status;
}

static int init(unsigned flags)
{
    status = driver_init(flags);
    if (status)
        pf_cuDeviceGetCount = (void *)no_devices;
    return 0;
}

__attribute__((constructor(102))) static void intercept(void)
{
    driver_init = (int (*)(unsigned))pf_cuInit;
    pf_cuInit = (void *)init;
}
