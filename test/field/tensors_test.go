package field

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"
	"testing"
)

// floats are numbers as binary data has them.
func floats(numbers ...float32) string {
	var raw []byte
	for _, n := range numbers {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(n))
	}
	return string(raw)
}

// binaryBody is a row's body of JSON with tensors behind it, and its header.
func (r row) binaryBody(json, data string) row {
	r.body, r.header = json+data, "Content-Type: application/octet-stream\nInference-Header-Content-Length: "+strconv.Itoa(len(json))
	return r
}

func TestTensors(t *testing.T) {
	const path, half = "/v2/models/adder/infer", "/v2/models/halves/infer"
	input := func(datatype, shape, rest string) string {
		return `{"inputs":[{"name":"x","datatype":"` + datatype + `","shape":` + shape + `,` + rest + `}]}`
	}
	refused := func(saw, thread, body string, words ...string) row {
		return row{saw: saw, thread: thread, path: path, body: body, status: 400, check: says(words...)}
	}
	binaryRefused := func(saw, thread, shape string, size int, data string, words ...string) row {
		return refused(saw, thread, "", words...).binaryBody(input("FP32", shape, `"parameters":{"binary_data_size":`+strconv.Itoa(size)+`}`), data)
	}
	run(t, []row{
		refused("a fixed dimension was not checked, and the model read beside its input", "triton-inference-server/server#7171", input("FP32", "[1,8]", `"data":[1,2,3,4,5,6,7,8]`), "x", "8", "4"),
		refused("another shape than the model's was refused without the model's", "triton-inference-server/server#104", input("FP32", "[4]", `"data":[1,2,3,4]`), "x", "4"),
		refused("fewer numbers than the shape has were padded", several, input("FP32", "[2,4]", `"data":[1,2,3,4]`), "x", "8", "4"),
		refused("a negative dimension made a huge tensor", several, input("FP32", "[-1,4]", `"data":[1,2,3,4]`), "-1"),
		refused("dimensions whose product overflows passed for small ones", several, input("FP32", "[4611686018427387904,4]", `"data":[]`)),
		refused("another type than the model's was read as the model's", several, input("INT64", "[1,4]", `"data":[1,2,3,4]`), "x", "INT64", "FP32"),
		refused("an input that the model lacks was passed over", several, `{"inputs":[{"name":"z","datatype":"FP32","shape":[1,4],"data":[1,2,3,4]}]}`, "z"),
		refused("an output that the model lacks was a server error", several, `{"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"data":[1,2,3,4]}],"outputs":[{"name":"q"}]}`, "q"),
		refused("no inputs were a server error", several, `{"inputs":[]}`, "no inputs"),
		refused("an input that is there twice took the last", several, `{"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"data":[1,2,3,4]},{"name":"x","datatype":"FP32","shape":[1,4],"data":[5,6,7,8]}]}`, "x"),
		refused("texts among numbers were read as 0", several, input("FP32", "[1,4]", `"data":[1,2,"3",4]`)),
		refused("rows of another length than the shape's were flattened", several, input("FP32", "[1,4]", `"data":[[1,2],[3,4]]`), "x", "[1 4]"),
		refused("a number that FP32 does not hold became infinite", several, input("FP32", "[1,4]", `"data":[1e39,2,3,4]`), "x", "1e39"),
		refused("null among numbers was read as 0", several, input("FP32", "[1,4]", `"data":[1,2,3,null]`), "x", "null"),
		refused("JSON and binary data of one input took one of them", several, input("FP32", "[1,4]", `"data":[1,2,3,4],"parameters":{"binary_data_size":16}`), "x", "binary_data_size"),
		{
			saw: "a language model asked for tensors was a server error", thread: several, path: "/v2/models/" + generator + "/infer", body: input("FP32", "[1,4]", `"data":[1,2,3,4]`), status: 400, check: says(generator, "tokens"),
		},
		binaryRefused("more binary data than the shape has was a riddle", "triton-inference-server/server#351", "[1,4]", 32, floats(1, 2, 3, 4, 5, 6, 7, 8), "32", "16"),
		binaryRefused("an empty binary input passed for a full one", "triton-inference-server/server#8372", "[1,4]", 0, "", "0", "16"),
		binaryRefused("binary data that ends too early hung the request", several, "[1,4]", 16, floats(1, 2), "16", "8"),
		binaryRefused("binary data that no input claims was passed over", several, "[1,4]", 16, floats(1, 2, 3, 4, 5)),
		{
			saw: "a batch of one was the only one taken", thread: "triton-inference-server/server#4384", path: path,
			body: input("FP32", "[3,4]", `"data":[[1,2,3,4],[0,0,0,0],[10,20,30,40]]`), status: 200,
			want: map[string]string{"outputs.0.name": `"y"`, "outputs.0.datatype": `"FP32"`, "outputs.0.shape": `[3,4]`, "outputs.0.data": `[2,4,6,8,1,2,3,4,11,22,33,44]`},
		},
		{
			saw: "an output was declared of a shape that it did not have", thread: "triton-inference-server/server#1545", method: "GET", path: "/v2/models/adder", status: 200,
			want: map[string]string{"inputs.0.shape": `[-1,4]`, "outputs.0.shape": `[-1,4]`, "outputs.0.datatype": `"FP32"`, "name": `"adder"`},
		},
		{
			saw: "the request's id did not come back", thread: several, path: path, body: `{"id":"a-7","inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"data":[0,0,0,0]}]}`, status: 200,
			want: map[string]string{"id": `"a-7"`, "outputs.0.data": `[1,2,3,4]`},
		},
		row{
			saw: "binary input and JSON output did not go together", thread: several, path: path, status: 200, want: map[string]string{"outputs.0.data": `[2,4,6,8]`},
		}.binaryBody(input("FP32", "[1,4]", `"parameters":{"binary_data_size":16}`), floats(1, 2, 3, 4)),
		{
			saw: "a binary output's header told the wrong length", thread: several, path: path, status: 200,
			body: `{"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"data":[1,2,3,4]}],"parameters":{"binary_data_output":true}}`,
			check: func(t *testing.T, a *answer) {
				n, err := strconv.Atoi(a.header.Get("Inference-Header-Content-Length"))
				if err != nil || n > len(a.text) || a.text[n:] != floats(2, 4, 6, 8) || !strings.HasSuffix(a.text[:n], "}") {
					t.Errorf("%q with %q", a.text, a.header)
				}
			},
		},
		row{
			saw: "FP16 in binary data was read as FP32", thread: several, path: half, status: 200, want: map[string]string{"outputs.0.data": `[2,4,6.5,4]`},
		}.binaryBody(input("FP16", "[1,4]", `"parameters":{"binary_data_size":8}`), "\x00\x3c\x00\x40\x00\x43\x00\x00"), // 1, 2, 3.5, 0
		{
			saw: "FP16 as JSON was taken, and rounded somehow", thread: several, path: half, body: input("FP16", "[1,4]", `"data":[1,2,3,4]`), status: 400, check: says("FP16"),
		},
		row{
			saw: "BF16 for FP16 was read bit for bit", thread: several, path: half, status: 400, check: says("BF16", "FP16"),
		}.binaryBody(input("BF16", "[1,4]", `"parameters":{"binary_data_size":8}`), strings.Repeat("\x80\x3f", 4)),
		row{
			saw: "NaN and infinities in an output were no JSON", thread: several, path: path, status: 400, check: says("y", "Inf", "binary_data"),
		}.binaryBody(input("FP32", "[1,4]", `"parameters":{"binary_data_size":16}`), floats(float32(math.Inf(1)), 2, 3, float32(math.NaN()))),
		{
			saw: "a version that is not there was answered by another", thread: several, path: "/v2/models/adder/versions/9/infer", body: input("FP32", "[1,4]", `"data":[1,2,3,4]`), status: 404,
		},
		{
			saw: "an empty batch crashed the server", thread: several, path: path, body: input("FP32", "[0,4]", `"data":[]`), status: 400, check: says("0"),
		},
	})
}
