#define _GNU_SOURCE
#include "library.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pf_cudnn {
    cudnn_functions f;
    void *library, *cublas, *handle;
    void *device; /* the properties that stand for a GPU, or null */
};

static const struct {
    const char *name;
    size_t offset;
} symbols[] = {
    {"cudnnGetVersion", offsetof(cudnn_functions, version)},
    {"cudnnGetCudartVersion", offsetof(cudnn_functions, cudart_version)},
    {"cudnnCreate", offsetof(cudnn_functions, create)},
    {"cudnnDestroy", offsetof(cudnn_functions, destroy)},
    {"cudnnSetStream", offsetof(cudnn_functions, set_stream)},
    {"cudnnGetErrorString", offsetof(cudnn_functions, error_string)},
    {"cudnnGetLastErrorString", offsetof(cudnn_functions, last_error_string)},
    {"cudnnBackendCreateDescriptor", offsetof(cudnn_functions, create_descriptor)},
    {"cudnnBackendDestroyDescriptor", offsetof(cudnn_functions, destroy_descriptor)},
    {"cudnnBackendSetAttribute", offsetof(cudnn_functions, set_attribute)},
    {"cudnnBackendGetAttribute", offsetof(cudnn_functions, get_attribute)},
    {"cudnnBackendFinalize", offsetof(cudnn_functions, finalize)},
    {"cudnnBackendExecute", offsetof(cudnn_functions, execute)},
};

static void say(char *error, size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error, size, format, arguments);
    va_end(arguments);
}

/* Whether the version is another, or cuBLASLt is missing: without it cuDNN ends the process. */
static int unfit(pf_cudnn *c, char *error, size_t error_size)
{
    int64_t version = pf_cudnn_version(c);
    if (version < CUDNN_OLDEST || version >= 100000) {
        say(error, error_size, "cuDNN is version %d.%d, and 9.19 or newer of 9 is wanted", (int)(version / 10000), (int)(version / 100 % 100));
        return 1;
    }
    char name[64];
    snprintf(name, sizeof name, "libcublasLt.so.%d", (int)(c->f.cudart_version() / 1000));
    c->cublas = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!c->cublas)
        say(error, error_size, "cuDNN needs %s, which cannot be opened: %s", name, dlerror());
    return c->cublas == NULL;
}

/* Describes the device of which no GPU is at hand. */
static int describe_device(pf_cudnn *c, const char *properties, char *error, size_t error_size)
{
    int status = c->f.create_descriptor(DEVICEPROP, &c->device);
    if (!status)
        status = c->f.set_attribute(c->device, DEVICEPROP_JSON_REPRESENTATION, TYPE_CHAR, (int64_t)strlen(properties) + 1, properties);
    if (!status)
        status = c->f.finalize(c->device);
    if (status)
        say(error, error_size, "cuDNN does not take the device's properties: %s", c->f.error_string(status));
    return status;
}

static int prepare(pf_cudnn *c, char *error, size_t error_size)
{
    int status = c->f.create(&c->handle);
    if (status)
        c->handle = NULL;
    else
        status = c->f.set_stream(c->handle, NULL);
    if (status)
        say(error, error_size, "cudnnCreate: %s", c->f.error_string(status));
    return status;
}

pf_cudnn *pf_cudnn_open(const char *library, const char *properties, char *error, size_t error_size)
{
    pf_cudnn *c = calloc(1, sizeof *c);
    /* Once in, it stays: cuDNN is not made for being unloaded. */
    c->library = dlopen(library ? library : "libcudnn.so.9", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!c->library) {
        say(error, error_size, "cuDNN cannot be opened: %s", dlerror());
        free(c);
        return NULL;
    }
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *address = dlsym(c->library, symbols[i].name);
        if (!address) {
            say(error, error_size, "cuDNN has no %s; version 9.19 or newer is wanted", symbols[i].name);
            pf_cudnn_close(c);
            return NULL;
        }
        memcpy((char *)&c->f + symbols[i].offset, &address, sizeof address);
    }
    int failed = unfit(c, error, error_size);
    if (!failed)
        failed = properties ? describe_device(c, properties, error, error_size) : prepare(c, error, error_size);
    if (failed) {
        pf_cudnn_close(c);
        return NULL;
    }
    return c;
}

void pf_cudnn_close(pf_cudnn *c)
{
    if (c->device)
        c->f.destroy_descriptor(c->device);
    if (c->handle)
        c->f.destroy(c->handle);
    if (c->cublas)
        dlclose(c->cublas);
    dlclose(c->library);
    free(c);
}

int64_t pf_cudnn_version(const pf_cudnn *c) { return (int64_t)c->f.version(); }

void *pf_cudnn_handle(const pf_cudnn *c) { return c->handle; }

void *pf_cudnn_device(const pf_cudnn *c) { return c->device; }

void pf_cudnn_explain(const pf_cudnn *c, int status, char *text, size_t size)
{
    char last[512] = "";
    c->f.last_error_string(last, sizeof last);
    say(text, size, "%s (%d)%s%s", c->f.error_string(status), status, *last ? ": " : "", last);
}

int pf_cudnn_make(const pf_cudnn *c, int type, void **descriptor) { return c->f.create_descriptor(type, descriptor); }

void pf_cudnn_destroy(const pf_cudnn *c, void *descriptor) { c->f.destroy_descriptor(descriptor); }

int pf_cudnn_set(const pf_cudnn *c, void *descriptor, int name, int type, int64_t count, const void *elements)
{
    return c->f.set_attribute(descriptor, name, type, count, elements);
}

int pf_cudnn_get(const pf_cudnn *c, void *descriptor, int name, int type, int64_t capacity, int64_t *count, void *elements)
{
    return c->f.get_attribute(descriptor, name, type, capacity, count, elements);
}

int pf_cudnn_finalize(const pf_cudnn *c, void *descriptor) { return c->f.finalize(descriptor); }

int pf_cudnn_run(const pf_cudnn *c, void *plan, int64_t count, const int64_t *uids, const uint64_t *addresses, uint64_t workspace)
{
    void *pack = NULL;
    int status = c->f.create_descriptor(VARIANT_PACK, &pack);
    if (status)
        return status;
    status = c->f.set_attribute(pack, VARIANT_PACK_UNIQUE_IDS, TYPE_INT64, count, uids);
    if (!status)
        status = c->f.set_attribute(pack, VARIANT_PACK_DATA_POINTERS, TYPE_VOID_PTR, count, addresses);
    if (!status)
        status = c->f.set_attribute(pack, VARIANT_PACK_WORKSPACE, TYPE_VOID_PTR, 1, &workspace);
    if (!status)
        status = c->f.finalize(pack);
    if (!status)
        status = c->f.execute(c->handle, plan, pack);
    c->f.destroy_descriptor(pack);
    return status;
}
