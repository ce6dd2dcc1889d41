/* Calls of cuDNN's backend interface through a library that is opened at run time: nothing of cuDNN is linked, and a
   binary built here starts on machines that have none. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "cudnn.h"

typedef struct pf_cudnn pf_cudnn;

/* Opens the library (null: by its usual name) for the current context and its default stream. With properties, a
   device as cuDNN describes it in JSON, plans are made for that device without a GPU and cannot run. Returns null
   with a message in error on failure. */
pf_cudnn *pf_cudnn_open(const char *library, const char *properties, char *error, size_t error_size);
void pf_cudnn_close(pf_cudnn *c); /* after all that was made with it */

int64_t pf_cudnn_version(const pf_cudnn *c); /* 92100 is 9.21.0 */
void *pf_cudnn_handle(const pf_cudnn *c);    /* null with properties */
void *pf_cudnn_device(const pf_cudnn *c);    /* the properties' descriptor, or null */

/* What a status means, and what the library says of its last failure. */
void pf_cudnn_explain(const pf_cudnn *c, int status, char *text, size_t size);

/* These return cudnnStatus_t, 0 for success. */
int pf_cudnn_make(const pf_cudnn *c, int type, void **descriptor);
void pf_cudnn_destroy(const pf_cudnn *c, void *descriptor);
int pf_cudnn_set(const pf_cudnn *c, void *descriptor, int name, int type, int64_t count, const void *elements);
int pf_cudnn_get(const pf_cudnn *c, void *descriptor, int name, int type, int64_t capacity, int64_t *count, void *elements);
int pf_cudnn_finalize(const pf_cudnn *c, void *descriptor);

/* Enqueues a plan over tensors of these numbers at these addresses. */
int pf_cudnn_run(const pf_cudnn *c, void *plan, int64_t count, const int64_t *uids, const uint64_t *addresses, uint64_t workspace);
