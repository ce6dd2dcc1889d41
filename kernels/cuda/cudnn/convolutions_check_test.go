//go:build cudnn

package cudnn

import (
	"testing"

	"github.com/prefillonly/prefillonly/kernels/cuda/cudatest"
)

// kindOf is a square convolution.
func kindOf(in, out, groups, kernel, stride, dilation int) ConvolutionKind {
	return ConvolutionKind{In: in, Out: out, Groups: groups, Kernel: [2]int{kernel, kernel}, Strides: [2]int{stride, stride}, Dilations: [2]int{dilation, dilation}}
}

// checkedKinds are those of detectors and of a segmenter with dilated convolutions; whether cuDNN is to cover them forward.
var checkedKinds = []struct {
	ConvolutionKind
	covered bool
}{
	{kindOf(3, 16, 1, 3, 2, 1), true},
	{kindOf(16, 32, 1, 1, 1, 1), true},
	{kindOf(64, 64, 1, 3, 1, 1), true},
	{kindOf(17, 33, 1, 3, 2, 1), true},
	{kindOf(64, 64, 64, 3, 1, 1), true},
	{kindOf(96, 96, 96, 5, 2, 1), true},
	{kindOf(64, 64, 4, 3, 1, 1), true},
	{kindOf(64, 64, 1, 3, 1, 2), false},
}

// TestCudnnConvolutions has the real cuDNN choose engines and compile plans, for GPUs that are not there, of single
// images, of several, of other sizes and of paddings as parts of images have them. `make check-cudnn` runs it.
func TestCudnnConvolutions(t *testing.T) {
	for _, d := range cudatest.Devices {
		source := NewSource(Options{Properties: d.Properties()})
		l := NewConvolutions(ConvolutionOptions{Source: source, WorkspaceBytes: 32 << 20, Wait: func() {}, Note: func(s string) { t.Log(d.Name + ": " + s) }})
		for _, k := range checkedKinds {
			checkKind(t, l, k.ConvolutionKind, k.covered)
			back := k.ConvolutionKind
			back.Backward = true
			if k.covered { // else it depends on the device
				checkKind(t, l, back, true)
			}
			if k.Fuses() && k.covered {
				fused := k.ConvolutionKind
				fused.Bias = true
				checkKind(t, l, fused, true)
				fused.ReLU = true
				checkKind(t, l, fused, true)
			}
		}
		l.Close()
		source.Close()
	}
}

func checkKind(t *testing.T, l *Convolutions, k ConvolutionKind, covered bool) {
	t.Helper()
	if got := l.Covers(k, func() error { return nil }); got != covered {
		t.Errorf("%v: covered %v, want %v", k, got, covered)
	}
	if l.engines[k] == nil {
		return
	}
	t.Logf("%v: %v", k, l.engines[k])
	for _, images := range []int{1, 4} {
		for rows := 4; rows < 20; rows += 5 {
			g := typicalGeometry(k)
			g.Images, g.Output.Size[0] = images, rows
			reach := k.Dilations[0] * (k.Kernel[0] - 1)
			g.Pre[0], g.Post[0] = reach/2, reach/2
			g.Input.Size[0] = max(1, (rows-1)*k.Strides[0]+1+reach-g.Pre[0]-g.Post[0])
			g.Input.dense(k.In)
			g.Output.dense(k.Out)
			if _, err := l.Plan(k, g); err != nil {
				t.Errorf("%v: %v", k, err)
			}
		}
	}
}
