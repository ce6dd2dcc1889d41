/* The part of cuDNN 9's backend interface that is used here: names as in its cudnn_graph.h, without
   the prefix. Numbers never change within cuDNN 9. */
#pragma once
#include <stdint.h>

enum { /* cudnnBackendDescriptorType_t */
    ENGINE = 2, ENGINECFG = 3, ENGINEHEUR = 4, EXECUTION_PLAN = 5, KNOB_CHOICE = 7, OPERATIONGRAPH = 15, VARIANT_PACK = 16,
    TENSOR = 17, DEVICEPROP = 38, OPERATION_SDPA_FWD = 41, OPERATION_DIAGONAL_BAND_MASK = 44
};

enum { /* cudnnBackendAttributeName_t */
    ENGINEHEUR_MODE = 200, ENGINEHEUR_OPERATION_GRAPH = 201, ENGINEHEUR_RESULTS = 202, ENGINEHEUR_DEVICEPROP = 204,
    ENGINECFG_ENGINE = 300, ENGINECFG_KNOB_CHOICES = 302,
    EXECUTION_PLAN_HANDLE = 400, EXECUTION_PLAN_ENGINE_CONFIG = 401, EXECUTION_PLAN_WORKSPACE_SIZE = 402,
    EXECUTION_PLAN_JSON_REPRESENTATION = 405, EXECUTION_PLAN_DEVICEPROP = 407,
    KNOB_CHOICE_KNOB_TYPE = 600, KNOB_CHOICE_KNOB_VALUE = 601,
    OPERATIONGRAPH_HANDLE = 800, OPERATIONGRAPH_OPS = 801,
    TENSOR_BYTE_ALIGNMENT = 900, TENSOR_DATA_TYPE = 901, TENSOR_DIMENSIONS = 902, TENSOR_STRIDES = 903, TENSOR_UNIQUE_ID = 906,
    TENSOR_IS_VIRTUAL = 907, TENSOR_IS_BY_VALUE = 908, TENSOR_RAGGED_OFFSET_DESC = 913,
    VARIANT_PACK_UNIQUE_IDS = 1000, VARIANT_PACK_DATA_POINTERS = 1001, VARIANT_PACK_WORKSPACE = 1003,
    ENGINE_OPERATION_GRAPH = 1300, ENGINE_GLOBAL_INDEX = 1301, ENGINE_DEVICEPROP = 1307,
    DEVICEPROP_JSON_REPRESENTATION = 2702,
    SDPA_FWD_QDESC = 2800, SDPA_FWD_KDESC = 2801, SDPA_FWD_VDESC = 2802, SDPA_FWD_ODESC = 2803, SDPA_FWD_SCALEDESC = 2805,
    SDPA_FWD_PAGE_TABLE_KDESC = 2807, SDPA_FWD_PAGE_TABLE_VDESC = 2808, SDPA_FWD_SEQ_LEN_QDESC = 2809, SDPA_FWD_SEQ_LEN_KVDESC = 2810,
    SDPA_FWD_SUBGRAPH = 2811, SDPA_FWD_SUBGRAPH_INPUT_UID = 2812, SDPA_FWD_SUBGRAPH_OUTPUT_UID = 2813,
    BAND_MASK_XDESC = 3000, BAND_MASK_SEQ_LEN_KVDESC = 3001, BAND_MASK_SEQ_LEN_QDESC = 3002, BAND_MASK_LEFT_BOUND_DESC = 3003,
    BAND_MASK_BDESC = 3005, BAND_MASK_YDESC = 3006, BAND_MASK_COMPARISON_MODE = 3007
};

enum { /* cudnnBackendAttributeType_t */
    TYPE_HANDLE = 0, TYPE_DATA_TYPE = 1, TYPE_BOOLEAN = 2, TYPE_INT64 = 3, TYPE_VOID_PTR = 6, TYPE_HEUR_MODE = 8, TYPE_KNOB_TYPE = 9,
    TYPE_POINTWISE_MODE = 14, TYPE_DESCRIPTOR = 15, TYPE_CHAR = 24
};

enum { DATA_FLOAT = 0, DATA_INT32 = 4, DATA_BFLOAT16 = 9, DATA_INT64 = 10 }; /* cudnnDataType_t */
enum { POINTWISE_CMP_GT = 302, POINTWISE_CMP_GE = 303 };                     /* cudnnPointwiseMode_t */
enum { HEUR_MODE_A = 3 };                                                    /* cudnnBackendHeurMode_t */

/* The version that has attention with a mask's subgraph as one operation. */
enum { CUDNN_OLDEST = 92100 };

/* Functions return cudnnStatus_t, 0 for success. */
typedef struct {
    size_t (*version)(void);
    size_t (*cudart_version)(void); /* of CUDA that it is built for: 13000 is 13.0 */
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    int (*set_stream)(void *handle, void *stream);
    const char *(*error_string)(int status);
    void (*last_error_string)(char *message, size_t size);
    int (*create_descriptor)(int type, void **descriptor);
    int (*destroy_descriptor)(void *descriptor);
    int (*set_attribute)(void *descriptor, int name, int type, int64_t count, const void *elements);
    int (*get_attribute)(void *descriptor, int name, int type, int64_t capacity, int64_t *count, void *elements);
    int (*finalize)(void *descriptor);
    int (*execute)(void *handle, void *plan, void *variant_pack);
} cudnn_functions;
