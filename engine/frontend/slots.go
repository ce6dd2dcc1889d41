package frontend

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/frontend/exchange"
	"github.com/prefillonly/prefillonly/internal/budget"
	"github.com/prefillonly/prefillonly/internal/httpserve"
	"github.com/prefillonly/prefillonly/internal/processors"
)

// Bounds on the slots that other programs ask for.
const (
	maxSlotAsks  = 256 // open at a time
	maxSlotKinds = 64  // that are known: each has a profile of its own
	maxSlotUnits = 1000
	maxSlotRest  = time.Hour
)

// slotPace is about what a unit of a kind that nothing is known of takes.
const slotPace = 10 * time.Millisecond

// slotEndpoint gives slots of the processors to other programs that work beside the server, each for as long as its answer is open.
type slotEndpoint struct {
	processors *processors.Pool
	asks       *budget.Budget
	onDrain    func(func()) (stop func() bool)

	mu    sync.Mutex
	kinds map[string]bool // guarded by mu
}

func newSlotEndpoint(onDrain func(func()) (stop func() bool)) *slotEndpoint {
	return &slotEndpoint{processors: processors.Shared(), asks: budget.New(maxSlotAsks), onDrain: onDrain, kinds: map[string]bool{}}
}

// slotLine is a line of the answer.
type slotLine struct {
	Granted  bool   `json:"granted"`
	WaitedMS int64  `json:"waited_ms"`
	Reason   string `json:"reason,omitempty"` // why the slot is no longer the client's
}

func (e *slotEndpoint) routes() []route {
	told := describeOperation("A slot of the processors for work of another program, which has it while the answer is open", []int{400, 403, 429, 500, 503, 504}, answerOf[slotLine]()).
		With("kind", "units", "deadline_ms", "then")
	return []route{getRoute("/v1/stages/slot", e.holdSlot, told)}
}

// holdSlot answers with a line when the slot is the client's, and ends when the client leaves, or has had it for too long.
func (e *slotEndpoint) holdSlot(x *exchange.Exchange, r *http.Request) {
	if e.processors.OutsideSlots() == 0 {
		x.Refuse(exchange.WithStatus(http.StatusForbidden, api.TypePermission, "slots_not_given",
			"this server gives no slots of its processors to other programs, as its parameter --cpu-slots-external is 0"))
		return
	}
	stage, err := e.stageOf(r, x.Start)
	if err != nil {
		x.Refuse(exchange.RefusalOf(r.Context(), err))
		return
	}
	if full := e.asks.Hold(x.Holder(), 1); full != nil {
		x.Refuse(exchange.RefusalOf(r.Context(), engine.Errorf(engine.CodeOverloaded, "slots: %v; come back later", full)))
		return
	}
	defer e.asks.Release(x.Holder(), 1)
	stage.Tenant = x.Holder()
	httpserve.EndWithSendingSide(r)
	held, err := e.processors.Hold(r.Context(), stage)
	if err != nil {
		x.Refuse(exchange.RefusalOf(r.Context(), slotError(err)))
		return
	}
	defer held.Release()
	e.answerUntilGone(x, r, held)
}

// slotError is why no slot was given, for the client.
func slotError(err error) error {
	var late *processors.LateError
	if !errors.As(err, &late) {
		return err
	}
	refused := engine.Errorf(engine.CodeOverloaded, "the stage cannot end by its deadline, as others do; come back later, or give it more time")
	refused.RetryAfter = late.RetryAfter
	return refused
}

func (e *slotEndpoint) answerUntilGone(x *exchange.Exchange, r *http.Request, held *processors.Held) {
	drained := make(chan struct{})
	stop := e.onDrain(func() { close(drained) })
	defer stop()
	control := http.NewResponseController(x)
	_ = control.SetWriteDeadline(time.Time{}) // the answer is open as long as the work takes; writers of tests cannot
	x.Header().Set("Content-Type", "application/x-ndjson")
	x.WriteHeader(http.StatusOK)
	line := json.NewEncoder(x)
	if err := line.Encode(slotLine{Granted: true, WaitedMS: held.Waited.Milliseconds()}); err != nil {
		return
	}
	_ = control.Flush()
	reason := ""
	select {
	case <-r.Context().Done():
		return
	case <-held.Expired:
		reason = "expired"
	case <-drained:
		reason = "draining"
	}
	_ = line.Encode(slotLine{WaitedMS: held.Waited.Milliseconds(), Reason: reason})
}

var slotKind = regexp.MustCompile(`^[a-z0-9_.-]{1,32}$`)

// stageOf is what a request asks for.
func (e *slotEndpoint) stageOf(r *http.Request, arrived time.Time) (processors.Stage, error) {
	q := r.URL.Query()
	s := processors.Stage{Kind: "external " + q.Get("kind"), Came: arrived, First: true, Outside: true}
	if !slotKind.MatchString(q.Get("kind")) {
		return s, api.Invalid("kind", "invalid kind %.40q: want the name of the work, of 1 to 32 of a-z, 0-9, _, . and -", q.Get("kind"))
	}
	if !e.knowsKind(s.Kind) {
		return s, api.Invalid("kind", "kind %q is one more than the %d that the server tells apart; use one of those that were given before", q.Get("kind"), maxSlotKinds)
	}
	units, err := slotNumber(q.Get("units"), 1, maxSlotUnits)
	if err != nil {
		return s, api.Invalid("units", "invalid units %.40q: %v", q.Get("units"), err)
	}
	s.Takes = max(time.Millisecond, time.Duration(units*float64(slotPace)))
	if text := q.Get("deadline_ms"); text != "" {
		ms, err := slotNumber(text, 0, 1e9)
		if err != nil {
			return s, api.Invalid("deadline_ms", "invalid deadline_ms %.40q: %v", text, err)
		}
		s.Due = arrived.Add(time.Duration(ms * float64(time.Millisecond)))
	}
	s.Rest, err = restOf(q.Get("then"))
	if err != nil {
		return s, api.Invalid("then", "invalid then %.100q: %v", q.Get("then"), err)
	}
	return s, nil
}

// knowsKind says whether a kind is one of those that are told apart, which it becomes if there is room.
func (e *slotEndpoint) knowsKind(kind string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.kinds[kind] && len(e.kinds) == maxSlotKinds {
		return false
	}
	e.kinds[kind] = true
	return true
}

// slotNumber is a number from 0 to most; otherwise, if it is not given.
func slotNumber(text string, otherwise, most float64) (float64, error) {
	if text == "" {
		return otherwise, nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v <= most) {
		return 0, fmt.Errorf("want a number from 0 to %v", most)
	}
	return v, nil
}

// restOf is how long what comes after a stage takes: parts as NAME:SECONDS, separated by commas.
func restOf(then string) (rest time.Duration, err error) {
	if then == "" {
		return 0, nil
	}
	for part := range strings.SplitSeq(then, ",") {
		name, seconds, _ := strings.Cut(part, ":")
		v, err := slotNumber(seconds, -1, maxSlotRest.Seconds())
		if err != nil || v < 0 || name == "" {
			return 0, fmt.Errorf("want NAME:SECONDS, separated by commas, such as device:0.2,post:0.01; got %.40q", part)
		}
		rest += time.Duration(v * float64(time.Second))
	}
	return min(rest, maxSlotRest), nil
}
