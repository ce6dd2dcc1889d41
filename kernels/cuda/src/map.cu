/* Programs over tensors. A thread's slots, the values that are still needed, lie in shared memory if they are few,
   and else in memory of the launch. */
#include "program.h"

struct pf_mapping {
    int64_t elements;
    float *slots; /* for every thread of the grid, or null if shared memory has room */
    pf_view dst;
    pf_program program;
};

/* threads: any number of blocks of PF_BLOCK, which go through the elements. */
PF_KERNEL PF_FOUR_BLOCKS pf_map(const PF_ARGUMENT pf_mapping m)
{
    __shared__ float shared[PF_SHARED_SLOTS * PF_BLOCK];
    int64_t threads = (int64_t)gridDim.x * blockDim.x;
    float *slots = m.slots ? m.slots + element_of_thread() : shared + threadIdx.x;
    for (int64_t element = element_of_thread(); element < m.elements; element += threads)
        m.dst.data[offset_of(m.dst, m.program.shape, (uint32_t)element)] =
            interpret(m.program, (uint32_t)element, 0, slots, m.slots ? threads : PF_BLOCK);
}
