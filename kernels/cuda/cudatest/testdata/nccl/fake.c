/* A libnccl.so.2 whose "device memory" is the host's, so that a call returns when its work is done. A rank's call waits for
   those of the others, until the group is aborted. FAKE_NCCL makes it fail:
     gather:R:N   the N-th gather of rank R (both from 0 on) fails at once, and the others wait
     async:R:N    rank R never comes to its N-th gather, and the others are told so when they ask */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS, UNHANDLED_CUDA, SYSTEM_ERROR, INTERNAL_ERROR, INVALID_ARGUMENT, INVALID_USAGE, REMOTE_ERROR };

typedef struct group {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int ranks, alive, arrived, aborted, lost;
    unsigned round;
    const void **sends;
} group;

typedef struct comm {
    group *g;
    int rank, calls;
} comm;

int ncclGetVersion(int *version)
{
    *version = 22803;
    return SUCCESS;
}

const char *ncclGetErrorString(int result)
{
    static const char *const names[] = {"no error", "unhandled cuda error", "unhandled system error", "internal error",
                                        "invalid argument", "invalid usage", "remote process exited"};
    return names[result];
}

int ncclCommInitAll(comm **comms, int count, const int *devices)
{
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++)
            if (devices[i] == devices[j])
                return INVALID_USAGE;
    group *g = calloc(1, sizeof *g);
    pthread_mutex_init(&g->mutex, NULL);
    pthread_cond_init(&g->changed, NULL);
    g->ranks = g->alive = count;
    g->sends = calloc((size_t)count, sizeof *g->sends);
    for (int i = 0; i < count; i++) {
        comms[i] = calloc(1, sizeof **comms);
        *comms[i] = (comm){g, i, 0};
    }
    return SUCCESS;
}

/* Whether FAKE_NCCL asks for this failure now. */
static int asked(const char *what, const comm *c)
{
    const char *value = getenv("FAKE_NCCL");
    char want[64];
    snprintf(want, sizeof want, "%s:%d:%d", what, c->rank, c->calls);
    return value && strcmp(value, want) == 0;
}

/* Waits, holding the mutex, for all ranks or the end of the group. */
static int meet(group *g)
{
    unsigned round = g->round;
    if (++g->arrived == g->ranks) {
        g->arrived = 0;
        g->round++;
        pthread_cond_broadcast(&g->changed);
    }
    while (g->round == round && !g->aborted)
        pthread_cond_wait(&g->changed, &g->mutex);
    return g->aborted ? INTERNAL_ERROR : SUCCESS;
}

int ncclAllGather(const void *send, void *recv, size_t bytes, int type, comm *c, void *stream)
{
    group *g = c->g;
    if (type != 1 || stream)
        return INVALID_ARGUMENT;
    if (asked("gather", c))
        return SYSTEM_ERROR;
    pthread_mutex_lock(&g->mutex);
    g->lost |= asked("async", c);
    int result = SUCCESS;
    while (asked("async", c) && !g->aborted)
        pthread_cond_wait(&g->changed, &g->mutex);
    g->sends[c->rank] = send;
    c->calls++;
    result = meet(g);
    for (int i = 0; result == SUCCESS && i < g->ranks; i++)
        memcpy((char *)recv + (size_t)i * bytes, g->sends[i], bytes);
    if (result == SUCCESS)
        result = meet(g); /* nobody overwrites what another still reads */
    pthread_mutex_unlock(&g->mutex);
    return result;
}

int ncclCommGetAsyncError(comm *c, int *state)
{
    pthread_mutex_lock(&c->g->mutex);
    *state = c->g->lost ? REMOTE_ERROR : SUCCESS;
    pthread_mutex_unlock(&c->g->mutex);
    return SUCCESS;
}

/* Nothing is freed: a rank may still be on its way out of a call. */
int ncclCommAbort(comm *c)
{
    pthread_mutex_lock(&c->g->mutex);
    c->g->aborted = 1;
    pthread_cond_broadcast(&c->g->changed);
    pthread_mutex_unlock(&c->g->mutex);
    return SUCCESS;
}
