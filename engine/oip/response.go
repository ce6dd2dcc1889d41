package oip

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/prefillonly/prefillonly/engine"
)

// Response is the answer to a request.
type Response struct {
	Model, Version string
	ID             string // the request's; may be empty
	Outputs        []Output
}

// Output is a tensor of an answer.
type Output struct {
	Name   string
	Type   engine.DType
	Shape  []int
	Data   []byte // little-endian, dense, row-major
	Binary bool   // it comes as binary data
}

// maxJSON is how many bytes the tensors of an answer may have that come as JSON, which makes up to six times as much
// of them.
const maxJSON = 16 << 20

// Check says which outputs JSON cannot tell.
func (r *Response) Check() error {
	total := 0
	for i := range r.Outputs {
		o := &r.Outputs[i]
		if o.Binary {
			continue
		}
		if total += len(o.Data); total > maxJSON {
			return fmt.Errorf("the outputs to come as JSON are more than %d bytes of tensors; ask for binary_data", maxJSON)
		}
		if err := CheckJSON(o.Name, o.Type); err != nil {
			return err
		}
		for at := 0; at < len(o.Data) && (o.Type == engine.FP32 || o.Type == engine.FP64); at += o.Type.Size() {
			if v := floatAt(o.Type, o.Data[at:]); v-v != 0 {
				return fmt.Errorf("output %.100q has the value %v at element %d, which JSON cannot tell; ask for binary_data", o.Name, v, at/o.Type.Size())
			}
		}
	}
	return nil
}

// CheckJSON says whether JSON can tell an output of a type.
func CheckJSON(name string, t engine.DType) error {
	if t == engine.FP16 || t == engine.BF16 {
		return fmt.Errorf("output %.100q is %v, which is not defined in JSON; ask for binary_data", name, t)
	}
	return nil
}

// Binary is the data that follows the JSON, in its order.
func (r *Response) Binary() (parts [][]byte) {
	for i := range r.Outputs {
		if r.Outputs[i].Binary {
			parts = append(parts, r.Outputs[i].Data)
		}
	}
	return parts
}

// pieceBytes is the size from which what is encoded goes to spill.
const pieceBytes = 64 << 10

// AppendJSON appends the JSON of an answer that Check has found to be fit. A long b goes to spill, which returns an
// empty buffer for what follows and whether there is any use in going on; a nil spill leaves everything in b.
func (r *Response) AppendJSON(b []byte, spill func(b []byte) (empty []byte, more bool)) []byte {
	b = append(b, `{"model_name":`...)
	b = appendText(b, r.Model)
	b = append(b, `,"model_version":`...)
	b = appendText(b, r.Version)
	if r.ID != "" {
		b = append(b, `,"id":`...)
		b = appendText(b, r.ID)
	}
	b = append(b, `,"outputs":[`...)
	for i := range r.Outputs {
		o := &r.Outputs[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"name":`...)
		b = appendText(b, o.Name)
		b = append(b, `,"datatype":"`...)
		b = append(b, TypeName(o.Type)...)
		b = append(b, `","shape":[`...)
		for k, n := range o.Shape {
			if k > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, int64(n), 10)
		}
		if o.Binary {
			b = append(b, `],"parameters":{"binary_data_size":`...)
			b = append(strconv.AppendInt(b, int64(len(o.Data)), 10), `}}`...)
			continue
		}
		b = append(b, `],"data":[`...)
		var more bool
		if b, more = o.appendData(b, spill); !more {
			return b
		}
		b = append(b, `]}`...)
	}
	return append(b, `]}`...)
}

// appendData appends the elements.
func (o *Output) appendData(b []byte, spill func(b []byte) ([]byte, bool)) (rest []byte, more bool) {
	size := o.Type.Size()
	for at := 0; at < len(o.Data); at += size {
		if at > 0 {
			b = append(b, ',')
		}
		b = appendElement(b, o.Type, o.Data[at:])
		if spill != nil && len(b) >= pieceBytes {
			if b, more = spill(b); !more {
				return b, false
			}
		}
	}
	return b, true
}

func appendElement(b []byte, t engine.DType, raw []byte) []byte {
	switch t {
	case engine.FP32:
		return strconv.AppendFloat(b, floatAt(t, raw), 'g', -1, 32)
	case engine.FP64:
		return strconv.AppendFloat(b, floatAt(t, raw), 'g', -1, 64)
	case engine.Bool:
		return strconv.AppendBool(b, raw[0] != 0)
	}
	bits, width := uint64(0), t.Size()
	for i := range width {
		bits |= uint64(raw[i]) << (8 * i)
	}
	if t >= engine.Int8 {
		unused := 64 - 8*width
		return strconv.AppendInt(b, int64(bits)<<unused>>unused, 10)
	}
	return strconv.AppendUint(b, bits, 10)
}

func floatAt(t engine.DType, raw []byte) float64 {
	if t == engine.FP32 {
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(raw)))
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(raw))
}

// appendText appends a string; what is no UTF-8 in it is replaced.
func appendText(b []byte, text string) []byte {
	quoted, _ := json.Marshal(text) // of a string it does not fail
	return append(b, quoted...)
}
