/* The part of NCCL (version 2) that is used here, opened at run time. Results are NCCL's: 0 is success. */
#ifndef PF_NCCL_H
#define PF_NCCL_H

#include <stddef.h>

typedef struct pf_nccl pf_nccl;

/* Opens the library of this path, or of its usual names if path is NULL. NULL, with a message, if there is none or it
   lacks a function. It stays open for the life of the process. */
pf_nccl *pf_nccl_open(const char *path, char *error, size_t error_size);

int pf_nccl_version(pf_nccl *l, int *version);

/* Makes count communicators, one for each device. */
int pf_nccl_join(pf_nccl *l, void **comms, int count, const int *devices);

/* Enqueues, on the default stream of the communicator's device, the copy of so many bytes of every rank to recv, in
   the order of ranks. */
int pf_nccl_all_gather(pf_nccl *l, void *comm, const void *send, void *recv, size_t bytes);

/* What happened beside the calls. */
int pf_nccl_async_error(pf_nccl *l, void *comm, int *state);

/* Ends what is under way and frees the communicator. */
int pf_nccl_abort(pf_nccl *l, void *comm);

const char *pf_nccl_error(pf_nccl *l, int result);

#endif
