package gradient_test

// none says why operations have no gradient.
var none = map[string]string{
	"Ceil": constant, "Floor": constant, "Hardmax": constant, "Round": constant, "Sign": constant,

	"And": truth, "Equal": truth, "Greater": truth, "GreaterOrEqual": truth, "IsInf": truth, "IsNaN": truth,
	"Less": truth, "LessOrEqual": truth, "Not": truth, "Or": truth, "Xor": truth,

	"ArgMax": integer, "ArgMin": integer, "BitShift": integer, "BitwiseAnd": integer, "BitwiseNot": integer,
	"BitwiseOr": integer, "BitwiseXor": integer, "NonMaxSuppression": integer, "NonZero": integer, "Shape": integer,
	"Size": integer, "ConvInteger": integer, "MatMulInteger": integer, "QLinearConv": integer, "QLinearMatMul": integer,
	"QuantizeLinear": integer,

	"Constant": sourceless, "ConstantOfShape": sourceless, "EyeLike": sourceless,
	"DequantizeLinear": "its argument is of integers",
}

const (
	constant   = "its result is constant almost everywhere"
	truth      = "its result is a truth value"
	integer    = "its result is of integers"
	sourceless = "its result depends on no element"
)
