package link

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// dumb sends byte after byte, a millisecond after the other.
type dumb struct {
	trace  Trace
	burst  float64
	now    time.Duration
	tokens float64
	queue  []float64
	done   []time.Duration
}

func (d *dumb) until(to time.Duration) {
	for ; d.now < to; d.now += time.Millisecond {
		rate, _ := d.trace.rateAt(d.now)
		d.tokens += rate / 1000
		d.drain(d.now + time.Millisecond)
		if len(d.queue) == len(d.done) {
			d.tokens = min(d.tokens, d.burst)
		}
	}
}

func (d *dumb) drain(at time.Duration) {
	for len(d.done) < len(d.queue) {
		q := &d.queue[len(d.done)]
		n := min(*q, d.tokens)
		*q, d.tokens = *q-n, d.tokens-n
		if *q > 1e-9 {
			return
		}
		d.done = append(d.done, at)
	}
}

func (d *dumb) send(now time.Duration, bytes int) {
	d.until(now)
	d.queue = append(d.queue, float64(bytes))
	d.drain(now)
}

func TestAgainstByteAfterByte(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 60 {
		trace := Trace{}
		at := time.Duration(0)
		for range 1 + r.IntN(5) {
			trace.steps = append(trace.steps, step{at, float64(r.IntN(4) * 5000)})
			at += time.Duration(1+r.IntN(900)) * time.Millisecond
		}
		if trace.steps[0].rate == 0 {
			trace.steps[0].rate = 3000
		}
		if n%2 == 0 {
			trace.period = at
		} else {
			trace.steps = append(trace.steps, step{at, 8000})
		}
		burst := r.IntN(3) * 2000
		l := New(trace, burst, 0)
		d := &dumb{trace: trace, burst: float64(burst)}
		var got []time.Duration
		now := time.Duration(0)
		for range 20 {
			now += time.Duration(r.IntN(400)) * time.Millisecond
			bytes := 1 + r.IntN(3000)
			got = append(got, l.Send(now, bytes))
			d.send(now, bytes)
			var waits float64
			for _, q := range d.queue[len(d.done):] {
				waits += q
			}
			if backlog := float64(l.Backlog(now)); math.Abs(backlog-waits) > 40 {
				t.Fatalf("case %d, %v: %v bytes wait, want %v", n, now, backlog, waits)
			}
		}
		d.until(now + 20*time.Minute)
		for i := range got {
			if len(d.done) <= i || (got[i]-d.done[i]).Abs() > 6*time.Millisecond {
				t.Fatalf("case %d, %+v, burst %d: message %d is through at %v, want %v", n, trace, burst, i, got[i], d.done)
			}
		}
	}
}

func TestNever(t *testing.T) {
	for _, text := range []string{"0", "0s:8kbit,1s:0"} {
		trace, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		l := New(trace, 0, time.Second)
		if got := l.Send(0, 5000); got != Never {
			t.Errorf("%s: through at %v", text, got)
		}
		if got := l.Send(time.Second, 1); got != Never {
			t.Errorf("%s: what comes behind is through at %v", text, got)
		}
	}
	repeated, err := Read(strings.NewReader("0 0\n5 0\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := repeated.When(0, 1); got != Never {
		t.Errorf("without any rate it is through at %v", got)
	}
}

func TestParse(t *testing.T) {
	trace, err := Parse("0s:2Mbit,10s:0,15s:500kbit")
	if err != nil || trace.Bytes(0, 20*time.Second) != 10*250_000+5*62_500 {
		t.Errorf("%+v, %v", trace, err)
	}
	trace, err = Read(strings.NewReader("# s kbit\n0,800\n2, 80\n\n4 8\n"))
	if err != nil || trace.period != 6*time.Second || math.Abs(trace.Bytes(6*time.Second, 12*time.Second)-(200_000+20_000+2_000)) > 1e-6 {
		t.Errorf("%+v, %v", trace, err)
	}
	for text, want := range map[string]string{
		"fast": `"fast" is neither a rate`, "2": `"2" is neither`, "-2Mbit": "neither", "1s:2Mbit": "begins at 1s", "0s:1Mbit,0s:2Mbit": "0s after 0s",
		"0s:x": `"x" is no rate`, "0:1Mbit,z:1Mbit": "invalid duration", "": "neither", "9999999Gbit": "neither",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	for text, want := range map[string]string{"": "no rate", "1 2 3": "line 1", "0 1\nx 2": "line 2", "0 y": "line 1", "5 5": "begins at 5s"} {
		if _, err := Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestEstimate holds that what messages got is what is told.
func TestEstimate(t *testing.T) {
	l := New(Constant(1000), 0, 100*time.Millisecond)
	if l.Estimate() != 0 {
		t.Errorf("before anything %v", l.Estimate())
	}
	for i := range 20 {
		if got, want := l.Send(time.Duration(i)*time.Second, 500), time.Duration(i)*time.Second+550*time.Millisecond; got != want {
			t.Errorf("message %d arrives at %v, want %v", i, got, want)
		}
	}
	if e := l.Estimate(); math.Abs(e-1000) > 1 {
		t.Errorf("%v bytes a second, want 1000", e)
	}
}

// TestNormal holds that rates have about the mean and the deviation that are asked for, that a seed makes the same ones again, and another others.
func TestNormal(t *testing.T) {
	for _, text := range []string{"2Mbit~0.3", "2Mbit~0.3#7", "2Mbit~0.3#8"} {
		trace, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		sum, squares := 0.0, 0.0
		for _, s := range trace.steps {
			sum, squares = sum+s.rate, squares+s.rate*s.rate
		}
		n := float64(len(trace.steps))
		mean := sum / n
		deviation := math.Sqrt(squares/n-mean*mean) / mean
		if math.Abs(mean/250_000-1) > 0.15 || math.Abs(deviation-0.3) > 0.1 || trace.check() != nil {
			t.Errorf("%s: a mean of %.0f bytes a second and a deviation of %.2f, %v", text, mean, deviation, trace.check())
		}
		again, _ := Parse(text)
		if other, _ := Parse("2Mbit~0.3#9"); again.Bytes(0, time.Minute) != trace.Bytes(0, time.Minute) || other.Bytes(0, time.Minute) == trace.Bytes(0, time.Minute) {
			t.Errorf("%s: not by its seed", text)
		}
	}
	if trace, err := Parse("1Mbit~5"); err != nil || trace.check() != nil {
		t.Errorf("rates below 0: %v, %v", err, trace.check())
	}
	for text, want := range map[string]string{"2Mbit~": "no deviation", "2Mbit~-1": "no deviation", "2Mbit~0.1#x": "x", "fast~0.1": "no rate"} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
