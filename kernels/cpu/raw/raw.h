#ifndef PREFILLONLY_RAW_H
#define PREFILLONLY_RAW_H

// Instructions, numbered as the Go constants are.
typedef enum raw_instruction { RAW_VFMADD_YMM, RAW_VFMADD_ZMM, RAW_VDPBF16PS, RAW_VPDPBUSD, RAW_TDPBF16PS, RAW_TDPBSSD } raw_instruction;

// raw_supported tells whether the processor has the instruction and the kernel permits it.
int raw_supported(raw_instruction instruction);

// raw_run repeats a loop of independent instructions, and returns the operations done: two for each
// multiplication and addition.
double raw_run(raw_instruction instruction, int repeats);

// raw_nanoseconds is the processor time that the thread has used.
double raw_nanoseconds(void);

#endif
