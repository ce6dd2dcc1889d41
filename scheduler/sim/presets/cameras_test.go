package presets

import (
	"testing"
	"time"
)

// h200 is eight cameras at 30 frames a second, and a gradient a second for each, beside prompts of an 8B model.
func h200(prompt, chunk int, frame time.Duration) Cameras {
	return Cameras{Streams: 8, Rate: 30, Frame: frame, Gradient: 8, Prompt: prompt, Chunk: chunk, Seconds: 20, Seed: 1}
}

// TestGradients: a gradient that is promised its deadline behind frames is in time beside prompts that take longer than that, and no frame is late for it. One
// that is promised nothing waits for the end of such a prompt. Where a frame could be late for gradients, these are promised nothing.
func TestGradients(t *testing.T) {
	for _, tt := range []struct {
		name  string
		set   func(s *Cameras)
		least float64 // part of gradients that are in time
		most  float64
	}{
		{"promised", func(*Cameras) {}, 0.99, 1},
		{"plain", func(s *Cameras) { s.Plain = true }, 0, 0.5},
		{"frames of 20 ms", func(s *Cameras) { s.Rate, s.Frame, s.Streams, s.Gradient = 20, 20*time.Millisecond, 1, 1 }, 0, 0.9},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := h200(131072, 4096, 1400*time.Microsecond)
			s.Seconds = 40
			tt.set(&s)
			o, err := s.Run()
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d gradients, %d late; %d frames, %d late, %d refused; worst %v, the model gets %.3f of the remainder", o.Gradients, o.LateGradients, o.Admitted, o.Late, o.Refused, o.Worst, o.Share(s))
			if part := float64(o.Gradients) / float64(o.Gradients+o.LateGradients); part < tt.least || part > tt.most || o.Late > 0 || o.Refused > o.Admitted/100 {
				t.Errorf("%.3f of gradients are in time, %d frames late and %d refused", part, o.Late, o.Refused)
			}
		})
	}
}

// TestPromisesAreKept holds the device to its promises where frames take up to 0.7 of it, and the language model to what
// they leave.
func TestPromisesAreKept(t *testing.T) {
	for _, tt := range []struct {
		name          string
		prompt, chunk int
		frame         time.Duration
		all           bool // frames are promised their deadlines
	}{
		{"8k, layer steps, a third of the device", 8192, 0, 1400 * time.Microsecond, true},
		{"8k, layer steps, at the limit", 8192, 0, 2700 * time.Microsecond, true},
		{"8k, chunk steps, at the limit", 8192, 4096, 2700 * time.Microsecond, true},
		{"128k, chunk steps, a third of the device", 131072, 4096, 1400 * time.Microsecond, true},
		{"128k, layer steps: nothing can be promised", 131072, 0, 1400 * time.Microsecond, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := h200(tt.prompt, tt.chunk, tt.frame)
			o, err := s.Run()
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d admitted, %d late, %d refused; %d nested passes, %d gradients; frames take %.2f of the device; step %v, worst %v; the model gets %.3f of the remainder",
				o.Admitted, o.Late, o.Refused, o.Nested, o.Gradients, o.Use(), o.Step, o.Worst, o.Share(s))
			if o.Late > 0 {
				t.Errorf("%d of %d admitted frames are late", o.Late, o.Admitted)
			}
			if tt.all && o.Refused > o.Admitted/100 || !tt.all && o.Admitted > 0 {
				t.Errorf("%d frames are refused, %d admitted", o.Refused, o.Admitted)
			}
			if share := o.Share(s); tt.prompt == 8192 && share < 0.9 {
				t.Errorf("the language model gets %.3f of what the others leave, want 0.9", share)
			}
		})
	}
}
