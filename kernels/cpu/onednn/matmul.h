// A bf16 matrix product by oneDNN: dst[m][n] = src[m][k] w[n][k]^T, with the weights in the layout that
// the library prefers.
#ifndef PREFILLONLY_ONEDNN_H
#define PREFILLONLY_ONEDNN_H

#include <stdint.h>

typedef struct pf_matmul pf_matmul;

// pf_matmul_new packs w; NULL when the library refuses.
pf_matmul *pf_matmul_new(int m, int n, int k, const uint16_t *w);
int pf_matmul_run(pf_matmul *p, const uint16_t *src, uint16_t *dst);
void pf_matmul_free(pf_matmul *p);

#endif
