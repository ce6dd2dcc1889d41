package cudnn

// #include "library.h"
import "C"

// DescriptorType is cudnnBackendDescriptorType_t.
type DescriptorType C.int

// The types of descriptors, named as cuDNN names them.
const (
	PointwiseType                    DescriptorType = C.POINTWISE
	ConvolutionType                  DescriptorType = C.CONVOLUTION
	OperationConvolutionForwardType  DescriptorType = C.OPERATION_CONVOLUTION_FORWARD
	OperationConvolutionBackwardType DescriptorType = C.OPERATION_CONVOLUTION_BWD_DATA
	OperationPointwiseType           DescriptorType = C.OPERATION_POINTWISE
	OperationGraphType               DescriptorType = C.OPERATIONGRAPH
	TensorType                       DescriptorType = C.TENSOR
	MatmulType                       DescriptorType = C.MATMUL
	OperationMatmulType              DescriptorType = C.OPERATION_MATMUL
	ReductionType                    DescriptorType = C.REDUCTION
	OperationReductionType           DescriptorType = C.OPERATION_REDUCTION
	OperationPagedCacheLoadType      DescriptorType = C.OPERATION_PAGED_CACHE_LOAD
	OperationSDPAForwardType         DescriptorType = C.OPERATION_SDPA_FWD
	OperationDiagonalBandMaskType    DescriptorType = C.OPERATION_DIAGONAL_BAND_MASK
)

// Attribute is cudnnBackendAttributeName_t.
type Attribute C.int

// The attributes, by the descriptors that have them.
const (
	PointwiseModeOf        Attribute = C.POINTWISE_MODE
	PointwiseMathPrecision Attribute = C.POINTWISE_MATH_PREC
	PointwiseAxis          Attribute = C.POINTWISE_AXIS

	ConvolutionPrecision    Attribute = C.CONVOLUTION_COMP_TYPE
	ConvolutionModeOf       Attribute = C.CONVOLUTION_CONV_MODE
	ConvolutionDilations    Attribute = C.CONVOLUTION_DILATIONS
	ConvolutionStrides      Attribute = C.CONVOLUTION_FILTER_STRIDES
	ConvolutionPostPaddings Attribute = C.CONVOLUTION_POST_PADDINGS
	ConvolutionPrePaddings  Attribute = C.CONVOLUTION_PRE_PADDINGS
	ConvolutionSpatialDims  Attribute = C.CONVOLUTION_SPATIAL_DIMS

	ConvolutionForwardAlpha Attribute = C.CONVOLUTION_FORWARD_ALPHA
	ConvolutionForwardBeta  Attribute = C.CONVOLUTION_FORWARD_BETA
	ConvolutionForwardHow   Attribute = C.CONVOLUTION_FORWARD_CONV_DESC
	ConvolutionForwardW     Attribute = C.CONVOLUTION_FORWARD_W
	ConvolutionForwardX     Attribute = C.CONVOLUTION_FORWARD_X
	ConvolutionForwardY     Attribute = C.CONVOLUTION_FORWARD_Y

	ConvolutionBackwardAlpha Attribute = C.CONVOLUTION_BWD_DATA_ALPHA
	ConvolutionBackwardBeta  Attribute = C.CONVOLUTION_BWD_DATA_BETA
	ConvolutionBackwardHow   Attribute = C.CONVOLUTION_BWD_DATA_CONV_DESC
	ConvolutionBackwardW     Attribute = C.CONVOLUTION_BWD_DATA_W
	ConvolutionBackwardDX    Attribute = C.CONVOLUTION_BWD_DATA_DX
	ConvolutionBackwardDY    Attribute = C.CONVOLUTION_BWD_DATA_DY

	OperationPointwiseHow Attribute = C.OPERATION_POINTWISE_PW_DESCRIPTOR
	OperationPointwiseX   Attribute = C.OPERATION_POINTWISE_XDESC
	OperationPointwiseB   Attribute = C.OPERATION_POINTWISE_BDESC
	OperationPointwiseY   Attribute = C.OPERATION_POINTWISE_YDESC
	OperationPointwiseT   Attribute = C.OPERATION_POINTWISE_TDESC

	OperationGraphHandle Attribute = C.OPERATIONGRAPH_HANDLE
	OperationGraphOps    Attribute = C.OPERATIONGRAPH_OPS

	TensorByteAlignment Attribute = C.TENSOR_BYTE_ALIGNMENT
	TensorDataType      Attribute = C.TENSOR_DATA_TYPE
	TensorDimensions    Attribute = C.TENSOR_DIMENSIONS
	TensorStrides       Attribute = C.TENSOR_STRIDES
	TensorUniqueID      Attribute = C.TENSOR_UNIQUE_ID
	TensorIsVirtual     Attribute = C.TENSOR_IS_VIRTUAL
	TensorIsByValue     Attribute = C.TENSOR_IS_BY_VALUE
	TensorRaggedOffset  Attribute = C.TENSOR_RAGGED_OFFSET_DESC

	MatmulPrecision    Attribute = C.MATMUL_COMP_TYPE
	OperationMatmulA   Attribute = C.OPERATION_MATMUL_ADESC
	OperationMatmulB   Attribute = C.OPERATION_MATMUL_BDESC
	OperationMatmulC   Attribute = C.OPERATION_MATMUL_CDESC
	OperationMatmulHow Attribute = C.OPERATION_MATMUL_DESC
	OperationMatmulM   Attribute = C.OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC
	OperationMatmulN   Attribute = C.OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC
	OperationMatmulK   Attribute = C.OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC

	ReductionOperatorOf    Attribute = C.REDUCTION_OPERATOR
	ReductionPrecision     Attribute = C.REDUCTION_COMP_TYPE
	OperationReductionX    Attribute = C.OPERATION_REDUCTION_XDESC
	OperationReductionY    Attribute = C.OPERATION_REDUCTION_YDESC
	OperationReductionHow  Attribute = C.OPERATION_REDUCTION_DESC
	PagedCacheLoadFrom     Attribute = C.PAGED_CACHE_LOAD_CONTAINER_DESC
	PagedCacheLoadY        Attribute = C.PAGED_CACHE_LOAD_YDESC
	PagedCacheLoadSequence Attribute = C.PAGED_CACHE_LOAD_SEQUENCE_DESC
	PagedCacheLoadTable    Attribute = C.PAGED_CACHE_LOAD_PAGE_TABLE_DESC

	SDPAForwardQ              Attribute = C.SDPA_FWD_QDESC
	SDPAForwardK              Attribute = C.SDPA_FWD_KDESC
	SDPAForwardV              Attribute = C.SDPA_FWD_VDESC
	SDPAForwardO              Attribute = C.SDPA_FWD_ODESC
	SDPAForwardScale          Attribute = C.SDPA_FWD_SCALEDESC
	SDPAForwardTableK         Attribute = C.SDPA_FWD_PAGE_TABLE_KDESC
	SDPAForwardTableV         Attribute = C.SDPA_FWD_PAGE_TABLE_VDESC
	SDPAForwardSequenceQ      Attribute = C.SDPA_FWD_SEQ_LEN_QDESC
	SDPAForwardSequenceKV     Attribute = C.SDPA_FWD_SEQ_LEN_KVDESC
	SDPAForwardSubgraph       Attribute = C.SDPA_FWD_SUBGRAPH
	SDPAForwardSubgraphInput  Attribute = C.SDPA_FWD_SUBGRAPH_INPUT_UID
	SDPAForwardSubgraphOutput Attribute = C.SDPA_FWD_SUBGRAPH_OUTPUT_UID

	BandMaskX          Attribute = C.BAND_MASK_XDESC
	BandMaskSequenceKV Attribute = C.BAND_MASK_SEQ_LEN_KVDESC
	BandMaskSequenceQ  Attribute = C.BAND_MASK_SEQ_LEN_QDESC
	BandMaskLeftBound  Attribute = C.BAND_MASK_LEFT_BOUND_DESC
	BandMaskB          Attribute = C.BAND_MASK_BDESC
	BandMaskY          Attribute = C.BAND_MASK_YDESC
	BandMaskComparison Attribute = C.BAND_MASK_COMPARISON_MODE
)

// DataType is cudnnDataType_t.
type DataType int32

// The types of elements.
const (
	Float    DataType = C.DATA_FLOAT
	Int32    DataType = C.DATA_INT32
	BFloat16 DataType = C.DATA_BFLOAT16
	Int64    DataType = C.DATA_INT64
	Boolean  DataType = C.DATA_BOOLEAN
)

func (t DataType) number() (int32, C.int) { return int32(t), C.TYPE_DATA_TYPE }

// PointwiseMode is cudnnPointwiseMode_t.
type PointwiseMode int32

// The operations on single elements.
const (
	PointwiseAdd          PointwiseMode = C.POINTWISE_ADD
	PointwiseMul          PointwiseMode = C.POINTWISE_MUL
	PointwiseDiv          PointwiseMode = C.POINTWISE_DIV
	PointwiseSub          PointwiseMode = C.POINTWISE_SUB
	PointwiseExp          PointwiseMode = C.POINTWISE_EXP
	PointwiseLog          PointwiseMode = C.POINTWISE_LOG
	PointwiseRELU         PointwiseMode = C.POINTWISE_RELU
	PointwiseGreater      PointwiseMode = C.POINTWISE_CMP_GT
	PointwiseGreaterEqual PointwiseMode = C.POINTWISE_CMP_GE
	PointwiseLess         PointwiseMode = C.POINTWISE_CMP_LT
	PointwiseAnd          PointwiseMode = C.POINTWISE_LOGICAL_AND
	PointwiseGenIndex     PointwiseMode = C.POINTWISE_GEN_INDEX
	PointwiseBinarySelect PointwiseMode = C.POINTWISE_BINARY_SELECT
)

func (m PointwiseMode) number() (int32, C.int) { return int32(m), C.TYPE_POINTWISE_MODE }

// ReductionOperator is cudnnReduceTensorOp_t.
type ReductionOperator int32

// The reductions.
const (
	ReduceAdd ReductionOperator = C.REDUCE_TENSOR_ADD
	ReduceMax ReductionOperator = C.REDUCE_TENSOR_MAX
)

func (o ReductionOperator) number() (int32, C.int) { return int32(o), C.TYPE_REDUCTION_OPERATOR }

// ConvolutionMode is cudnnConvolutionMode_t.
type ConvolutionMode int32

// CrossCorrelation is what networks call a convolution: the filter is not turned round.
const CrossCorrelation ConvolutionMode = C.CROSS_CORRELATION

func (m ConvolutionMode) number() (int32, C.int) { return int32(m), C.TYPE_CONVOLUTION_MODE }

// HeuristicMode is cudnnBackendHeurMode_t.
type HeuristicMode int32

// Heuristics: the one that is recommended, and engines that work with no promise of speed.
const (
	HeuristicA        HeuristicMode = C.HEUR_MODE_A
	HeuristicFallback HeuristicMode = C.HEUR_MODE_FALLBACK
)

func (m HeuristicMode) number() (int32, C.int) { return int32(m), C.TYPE_HEUR_MODE }

// Note is cudnnBackendNumericalNote_t: what is particular about an engine's numbers.
type Note int32

// The notes.
const (
	NoteTensorCore                Note = C.NOTE_TENSOR_CORE
	NoteDownConvertInputs         Note = C.NOTE_DOWN_CONVERT_INPUTS
	NoteReducedPrecisionReduction Note = C.NOTE_REDUCED_PRECISION_REDUCTION
	NoteFFT                       Note = C.NOTE_FFT
	NoteNondeterministic          Note = C.NOTE_NONDETERMINISTIC
	NoteWinograd                  Note = C.NOTE_WINOGRAD
	NoteWinograd4x4               Note = C.NOTE_WINOGRAD_TILE_4X4
	NoteWinograd6x6               Note = C.NOTE_WINOGRAD_TILE_6X6
	NoteWinograd13x13             Note = C.NOTE_WINOGRAD_TILE_13X13
	NoteStrictNaN                 Note = C.NOTE_STRICT_NAN_PROP
)
