#include "library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UINT8 = 1 }; /* of ncclDataType_t */

struct pf_nccl {
    int (*version)(int *);
    int (*init_all)(void **, int, const int *);
    int (*all_gather)(const void *, void *, size_t, int, void *, void *);
    int (*async_error)(void *, int *);
    int (*abort)(void *);
    const char *(*error_string)(int);
};

static const struct {
    const char *name;
    size_t offset;
} symbols[] = {
    {"ncclGetVersion", offsetof(pf_nccl, version)},
    {"ncclCommInitAll", offsetof(pf_nccl, init_all)},
    {"ncclAllGather", offsetof(pf_nccl, all_gather)},
    {"ncclCommGetAsyncError", offsetof(pf_nccl, async_error)},
    {"ncclCommAbort", offsetof(pf_nccl, abort)},
    {"ncclGetErrorString", offsetof(pf_nccl, error_string)},
};

static const char *const usual[] = {"libnccl.so.2", "libnccl.so"};

pf_nccl *pf_nccl_open(const char *path, char *error, size_t error_size)
{
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    for (size_t i = 0; !path && !library && i < sizeof usual / sizeof *usual; i++)
        library = dlopen(usual[i], RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(error, error_size, "%s", dlerror());
        return NULL;
    }
    pf_nccl *l = calloc(1, sizeof *l);
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *address = dlsym(library, symbols[i].name);
        if (!address) {
            snprintf(error, error_size, "it has no %s", symbols[i].name);
            free(l);
            return NULL;
        }
        memcpy((char *)l + symbols[i].offset, &address, sizeof address);
    }
    return l;
}

int pf_nccl_version(pf_nccl *l, int *version) { return l->version(version); }

int pf_nccl_join(pf_nccl *l, void **comms, int count, const int *devices) { return l->init_all(comms, count, devices); }

int pf_nccl_all_gather(pf_nccl *l, void *comm, const void *send, void *recv, size_t bytes)
{
    return l->all_gather(send, recv, bytes, UINT8, comm, NULL);
}

int pf_nccl_async_error(pf_nccl *l, void *comm, int *state) { return l->async_error(comm, state); }

int pf_nccl_abort(pf_nccl *l, void *comm) { return l->abort(comm); }

const char *pf_nccl_error(pf_nccl *l, int result) { return l->error_string(result); }
