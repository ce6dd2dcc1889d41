// Package lidar is the streaming pipeline of a LiDAR whose points are thinned block by block (OneAdapt, 4.2.1, pipeline d), on simulated sweeps: space around the sensor is cut
// into blocks, each of which has a knob that says what part of its points is sent, and a small network (tools/train/lidar/train.py) finds the cars.
package lidar

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/prefillonly/prefillonly/engine/dnn/direct"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
	"github.com/prefillonly/prefillonly/videoext/pipeline"
)

// Network is the network, in ONNX's format: of Pillars it makes the scores of places of a metre, and boxes.
//
//go:embed network.onnx
var Network []byte

// An interval is a second of a sensor that turns ten times in it.
const (
	interval = time.Second
	sweeps   = 10
)

// Bytes of what is sent: three coordinates of a point in 16 bits, and for each sweep how many points there are of each block.
const (
	pointBytes = 6
	blockBytes = 2
)

// Options say what is streamed: drives one after the other, and all of them again by other points.
type Options struct {
	Streets []uint64 // seeds
	Seconds int      // of each drive
	Repeats int      // the paper takes the mean of five
	// Gradients are of how many sweeps of each interval they are taken, of 1 to 10.
	Gradients int
}

// LiDAR is the pipeline.
type LiDAR struct {
	network   *direct.Network
	knobs     []oneadapt.Knob
	repeats   int
	gradients int
	sweeps    [][]Point // of all drives
}

// New makes a LiDAR of a network that was opened of a file with Network in it. The network is the caller's.
func New(network *direct.Network, o Options) *LiDAR {
	l := &LiDAR{network: network, knobs: Knobs(), repeats: o.Repeats, gradients: o.Gradients}
	for _, seed := range o.Streets {
		s := NewStreet(seed)
		for i := range o.Seconds * sweeps {
			l.sweeps = append(l.sweeps, s.Sweep(time.Duration(i)*interval/sweeps).Points)
		}
	}
	return l
}

// Name implements pipeline.Pipeline.
func (l *LiDAR) Name() string {
	if l.gradients > 1 {
		return fmt.Sprintf("lidar-%d-gradients", l.gradients)
	}
	return "lidar"
}

// Knobs implements pipeline.Pipeline.
func (l *LiDAR) Knobs() []oneadapt.Knob { return l.knobs }

// Parts implements pipeline.Pipeline.
func (l *LiDAR) Parts() bool { return true }

// Intervals implements pipeline.Pipeline.
func (l *LiDAR) Intervals() int { return l.repeats * len(l.sweeps) / sweeps }

// input is what is sent of an interval: points are drawn again when they are needed, as many inputs are made and few are looked at.
type input struct {
	interval int
	config   oneadapt.Config
	costs    []float64 // of blocks
}

// Cost implements pipeline.Input: bytes.
func (in *input) Cost() (sum float64) {
	for _, c := range in.costs {
		sum += c
	}
	return sum
}

// Costs implements pipeline.Parted.
func (in *input) Costs() []float64 { return in.costs }

// Prepare implements pipeline.Pipeline.
func (l *LiDAR) Prepare(interval int, c oneadapt.Config) (pipeline.Input, error) {
	in := &input{interval, c, make([]float64, len(l.knobs))}
	for i := range in.costs {
		in.costs[i] = blockBytes * sweeps
	}
	for i := range sweeps {
		for _, p := range l.sentPoints(in, i) {
			in.costs[blockOf(p)] += pointBytes
		}
	}
	return in, nil
}

// sentPoints are the points that are sent of a sweep of an interval.
func (l *LiDAR) sentPoints(in *input, sweep int) []Point {
	n := in.interval*sweeps + sweep
	points := l.sweeps[n%len(l.sweeps)]
	return selectPoints(points, Thin(points, in.config, uint64(n)))
}

// Infer implements pipeline.Pipeline: the result is [][]Car, of sweeps.
func (l *LiDAR) Infer(in pipeline.Input) (pipeline.Result, error) {
	found := make([][]Car, sweeps)
	for i := range found {
		scores, boxes, err := l.inferPillars(Pillars(l.sentPoints(in.(*input), i)))
		if err != nil {
			return nil, err
		}
		found[i] = readCars(scores, boxes)
	}
	return found, nil
}

// shape is that of the network's input.
var shape = []int{1, Slices, Cells, Cells}

// inferPillars runs the network.
func (l *LiDAR) inferPillars(pillars []float32) (scores, boxes *direct.Output, err error) {
	outputs, err := l.network.Run(shape, littleEndian(pillars))
	if err != nil {
		return nil, nil, err
	}
	for i := range outputs {
		switch outputs[i].Name {
		case "scores":
			scores = &outputs[i]
		case "boxes":
			boxes = &outputs[i]
		}
	}
	if scores == nil || boxes == nil {
		return nil, nil, fmt.Errorf("the network has no outputs scores and boxes; open the one of this package")
	}
	return scores, boxes, nil
}

func littleEndian(values []float32) []byte {
	data := make([]byte, 4*len(values))
	for i, v := range values {
		binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(v))
	}
	return data
}

// Accuracy implements pipeline.Pipeline: the mean F1 of sweeps, of cars whose score is above a half and that overlap, as seen from above, by a half.
func (l *LiDAR) Accuracy(truth, got pipeline.Result) (sum float64) {
	for i, cars := range truth.([][]Car) {
		sum += boxesF1(sureBoxes(cars), sureBoxes(got.([][]Car)[i]))
	}
	return sum / sweeps
}
