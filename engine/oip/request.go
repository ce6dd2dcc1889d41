package oip

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/prefillonly/prefillonly/engine"
)

// Bounds on a request beside the bytes of its tensors.
const (
	maxRank     = 32   // dimensions of a tensor
	maxElements = 4096 // of tensors of Bytes, together
	maxTensors  = 1024
)

// Decode reads a request: JSON in the first header bytes of body, then its binary data. With a header below 0 all of
// body is JSON. The tensors may have limit bytes, all together. Binary data is not copied: it is body's.
func Decode(body []byte, header, limit int) (*Request, error) {
	if header < 0 {
		header = len(body)
	}
	if header > len(body) {
		return nil, fmt.Errorf("%s is %d, the body has %d bytes", HeaderLength, header, len(body))
	}
	d := decoder{scanner: scanner{data: body[:header]}, Request: &Request{}, limit: limit, left: limit}
	if err := d.readRequest(); err != nil {
		return nil, err
	}
	if len(d.Inputs) == 0 {
		return nil, errors.New("the request has no inputs")
	}
	binary := body[header:]
	for i := range d.Inputs {
		var err error
		if binary, err = d.fillInput(&d.Inputs[i], &d.sources[i], binary); err != nil {
			return nil, fmt.Errorf("input %.100q: %w", d.Inputs[i].Name, err)
		}
	}
	if len(binary) > 0 {
		return nil, fmt.Errorf("the body has %d bytes behind its JSON that belong to no input: binary_data_size of the inputs is %d together", len(binary), len(body)-header-len(binary))
	}
	return d.Request, nil
}

// decoder reads a request.
type decoder struct {
	scanner
	*Request
	sources     []source // of Inputs
	limit, left int      // bytes of tensors
	elements    int      // of Bytes, so far
}

// source is where the data of an input comes from.
type source struct {
	json   []byte // nil: from binary data
	at     int    // of json in the body
	binary int    // bytes; -1: not given
	typed  bool   // a datatype is given
	shaped bool
}

func (d *decoder) readRequest() error {
	given := false
	err := d.readObject(map[string]func() error{
		"id":         func() (err error) { d.ID, err = d.readString(); return },
		"parameters": d.readParameters,
		"inputs":     func() error { given = true; return d.readArray(d.readInput) },
		"outputs":    func() error { return d.readArray(d.output) },
	})
	if err == nil && d.peekByte() != 0 || d.at < len(d.data) && err == nil {
		err = d.syntaxError("%s, want the end of the JSON", d.describeNext())
	}
	if err == nil && !given {
		err = errors.New("the request has no inputs")
	}
	return err
}

func (d *decoder) readParameters() error {
	return d.readObject(map[string]func() error{
		"binary_data_output": func() (err error) { d.Binary, err = d.readBool("binary_data_output"); return },
		"priority":           func() (err error) { d.Priority, err = d.count("priority"); return },
		"timeout":            d.readTimeout,
		"stream":             func() (err error) { d.Stream, err = d.readString(); return },
		"promised": func() error {
			promised, err := d.readBool("promised")
			d.Promised = &promised
			return err
		},
		"sequence_id": func() error { return errors.New("sequence_id: sequences are not served; send requests without it") },
	})
}

// readTimeout is in microseconds.
func (d *decoder) readTimeout() error {
	n, err := d.count("timeout")
	if err == nil && n > math.MaxInt64/uint64(time.Microsecond) {
		err = d.syntaxError("timeout is %d microseconds, want at most %d", n, math.MaxInt64/int64(time.Microsecond))
	}
	d.Timeout = time.Duration(n) * time.Microsecond
	return err
}

func noSharedMemory() error {
	return errors.New("shared_memory_region: shared memory is not served; send the tensor in the body")
}

func (d *decoder) readInput(i int) error {
	if i == maxTensors {
		return d.syntaxError("the request has more than %d inputs", maxTensors)
	}
	t, from := Tensor{}, source{binary: -1}
	err := d.readObject(map[string]func() error{
		"name":     func() (err error) { t.Name, err = d.readString(); return },
		"datatype": func() (err error) { t.Type, err = d.readDatatype(); from.typed = true; return },
		"shape":    func() (err error) { t.Shape, err = d.readShape(); from.shaped = true; return },
		"data": func() error {
			d.peekByte()
			from.at = d.at
			err := d.skipValue()
			from.json = d.data[from.at:d.at]
			return err
		},
		"parameters": func() error {
			return d.readObject(map[string]func() error{
				"binary_data_size":     func() (err error) { from.binary, err = d.readSize("binary_data_size"); return },
				"shared_memory_region": noSharedMemory,
			})
		},
	})
	if err == nil {
		err = checkComplete(&t, &from)
	}
	if err != nil {
		return fmt.Errorf("input %d%s: %w", i, quoteName(t.Name), err)
	}
	d.Inputs, d.sources = append(d.Inputs, t), append(d.sources, from)
	return nil
}

func quoteName(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf(" (%.100q)", name)
}

// checkComplete says what an input lacks.
func checkComplete(t *Tensor, from *source) error {
	switch {
	case t.Name == "":
		return errors.New("it has no name")
	case !from.typed:
		return errors.New("it has no datatype")
	case !from.shaped:
		return errors.New("it has no shape")
	case from.json == nil && from.binary < 0:
		return errors.New("it has neither data nor the parameter binary_data_size")
	case from.json != nil && from.binary >= 0:
		return errors.New("it has both data and the parameter binary_data_size; give one")
	}
	return nil
}

func (d *decoder) readDatatype() (engine.DType, error) {
	name, err := d.readString()
	if err != nil {
		return 0, err
	}
	t, known := typeOf(name)
	if !known {
		return 0, fmt.Errorf("datatype is %.40q; want one of BOOL, UINT8 to UINT64, INT8 to INT64, FP16, BF16, FP32, FP64 and BYTES", name)
	}
	return t, nil
}

func (d *decoder) readShape() (shape []int, err error) {
	shape = []int{}
	err = d.readArray(func(i int) error {
		if i == maxRank {
			return d.syntaxError("the shape has more than %d dimensions", maxRank)
		}
		n, err := d.readSize(fmt.Sprintf("dimension %d of the shape", i))
		shape = append(shape, n)
		return err
	})
	return shape, err
}

func (d *decoder) output(i int) error {
	if i == maxTensors {
		return d.syntaxError("the request asks for more than %d outputs", maxTensors)
	}
	w := Wanted{}
	err := d.readObject(map[string]func() error{
		"name": func() (err error) { w.Name, err = d.readString(); return },
		"parameters": func() error {
			return d.readObject(map[string]func() error{
				"binary_data": func() error {
					binary, err := d.readBool("binary_data")
					w.Binary = &binary
					return err
				},
				"classification":       func() error { return errors.New("classification is not served; take the output itself") },
				"shared_memory_region": noSharedMemory,
			})
		},
	})
	if err == nil && w.Name == "" {
		err = errors.New("it has no name")
	}
	if err != nil {
		return fmt.Errorf("output %d%s: %w", i, quoteName(w.Name), err)
	}
	d.Outputs = append(d.Outputs, w)
	return nil
}

// fillInput gives an input its data: of its JSON, or of the beginning of binary, of which the rest is returned.
func (d *decoder) fillInput(t *Tensor, from *source, binary []byte) (rest []byte, err error) {
	if from.json == nil && from.binary > len(binary) {
		return nil, fmt.Errorf("binary_data_size is %d, and %d bytes are left of the body", from.binary, len(binary))
	}
	if t.Type == Bytes {
		return d.fillElements(t, from, binary)
	}
	ref := engine.Ref{Name: t.Name, Type: t.Type, Shape: t.Shape}
	size, ok := ref.Bytes()
	switch {
	case !ok:
		return nil, fmt.Errorf("%v of the shape %v is more bytes than can be counted", t.Type, t.Shape)
	case from.json == nil && size != from.binary:
		return nil, fmt.Errorf("binary_data_size is %d; %v of the shape %v is %d bytes", from.binary, t.Type, t.Shape, size)
	case size > d.left:
		return nil, fmt.Errorf("%v of the shape %v is %d bytes; the tensors of a request may have %d, and %d of these are left", t.Type, t.Shape, size, d.limit, d.left)
	}
	d.left -= size
	if from.json == nil {
		t.Data = binary[:size:size]
		return binary[size:], nil
	}
	n := size / t.Type.Size()
	if most := (len(from.json) + 1) / 2; n > most { // each element has a digit, and a comma behind it or a bracket
		return nil, fmt.Errorf("the shape %v has %d elements; data, of %d bytes, has at most %d", t.Shape, n, len(from.json), most)
	}
	t.Data, err = decodeData(&scanner{data: d.data[:from.at+len(from.json)], at: from.at}, t.Type, t.Shape, n)
	return binary, err
}
