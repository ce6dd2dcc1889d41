package main

import (
	"bufio"
	"encoding/binary"
	"flag"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"github.com/prefillonly/prefillonly/videoext/oneadapt"
	"github.com/prefillonly/prefillonly/videoext/pipeline/lidar"
)

// writeSweeps writes pillars of simulated sweeps and the cars in them, for tools/train/lidar/train.py.
//
// Each sweep is, in little-endian numbers: how many values of its pillars are not 0 as uint32, their places as uint32 and they as float32; how many cars as uint32, and for each
// x, y, length, width, yaw and how many points are on it, as float32.
func writeSweeps(args []string) error {
	flags := flag.NewFlagSet("lidar", flag.ExitOnError)
	first, streets := flags.Uint64("first", 1, "seed of the first street"), flags.Int("streets", 1, "to write")
	sweeps, apart := flags.Int("sweeps", 10, "of each street"), flags.Duration("apart", time.Second, "from one sweep to the next")
	thinned := flags.Bool("thin", false, "send a part of each block's points: one for all blocks or one for each, by chance")
	_ = flags.Parse(args)
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	for n := range uint64(*streets) {
		s := lidar.NewStreet(*first + n)
		for i := range *sweeps {
			sweep, c := s.Sweep(time.Duration(i)**apart), oneadapt.Dearest(lidar.Knobs())
			if *thinned {
				c = randomConfig(rand.New(rand.NewPCG(*first+n, uint64(i))))
			}
			if err := writeSweep(out, &sweep, lidar.Thin(sweep.Points, c, uint64(i))); err != nil {
				return err
			}
		}
	}
	return out.Flush()
}

// randomConfig is a configuration by chance: a third of all have all points, a third one setting for all blocks, and a third one for each.
func randomConfig(r *rand.Rand) oneadapt.Config {
	c := oneadapt.Dearest(lidar.Knobs())
	way, most := r.IntN(3), c[0]
	one := r.IntN(most + 1)
	for i := range c {
		switch way {
		case 1:
			c[i] = one
		case 2:
			c[i] = r.IntN(most + 1)
		}
	}
	return c
}

func writeSweep(to io.Writer, sweep *lidar.Sweep, sent []int) error {
	points, on := make([]lidar.Point, len(sent)), make([]float32, len(sweep.Cars))
	for i, n := range sent {
		points[i] = sweep.Points[n]
		if of := sweep.Of[n]; of >= 0 {
			on[of]++
		}
	}
	var places []uint32
	var values []float32
	for i, v := range lidar.Pillars(points) {
		if v != 0 {
			places, values = append(places, uint32(i)), append(values, v)
		}
	}
	cars := make([]float32, 0, 6*len(on))
	for i, c := range sweep.Cars {
		cars = append(cars, float32(c.X), float32(c.Y), float32(c.Length), float32(c.Width), float32(c.Yaw), on[i])
	}
	for _, part := range []any{uint32(len(places)), places, values, uint32(len(on)), cars} {
		if err := binary.Write(to, binary.LittleEndian, part); err != nil {
			return err
		}
	}
	return nil
}
