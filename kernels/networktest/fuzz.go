package networktest

import (
	"math/rand/v2"
	"testing"
)

// Fuzz computes each operation on random operands of random shapes, and compares with the oracle.
func Fuzz(f *testing.F, open Open) {
	for seed := range uint64(8) {
		f.Add(seed, uint8(seed))
	}
	f.Fuzz(func(t *testing.T, seed uint64, operation uint8) {
		d := newDevice(t, open)
		d.random = rand.New(rand.NewPCG(seed, 2))
		shape := d.randomShape(1, 6, 0, 1, 2, 3, 5, 8, 17)
		for Product(shape) > 20_000 {
			shape = shape[1:]
		}
		switch operation % 8 {
		case 0:
			d.compareConv(d.randomConv())
		case 1:
			d.compareConvBackward(d.randomConv())
		case 2:
			p := d.randomPool()
			d.comparePool(p, d.drawNormalArray(p.InputShape()...))
		case 3:
			p := d.randomPool()
			d.comparePoolBackward(p, d.drawNormalArray(p.InputShape()...))
		case 4:
			d.compareInterpolate(shape, d.upTo(len(shape)-1), d.upTo(20))
		case 5:
			d.compareMatMul(shape[:min(2, len(shape))], d.upTo(20), d.upTo(20), d.upTo(70))
		case 6:
			for how := range reductions {
				d.compareReduce(how, shape, d.upTo(1<<len(shape)-1), d.nearOne(shape...))
			}
		case 7:
			d.compareProgram(d.randomProgram(d.upTo(5), 1+d.upTo(80)), shape)
		}
	})
}
