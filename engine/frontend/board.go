package frontend

import (
	"bytes"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/prefillonly/prefillonly/engine/board"
)

// boardPace is how often the figures of the page are read, however many look at it.
const boardPace = time.Second

// boardSilence is for how long the scheduler may say nothing before the page calls its figures old.
const boardSilence = 3 * time.Second

// boardReader keeps the page as it was read last, for all who look.
type boardReader struct {
	mu    sync.Mutex
	board board.Board
	last  atomic.Pointer[boardViews]
}

// boardViews are the whole page and the part of it that changes, of a time.
type boardViews struct {
	page, now []byte
	read      time.Time
}

// boardViews are at most boardPace old; older while they are being read anew.
func (f *Frontend) boardViews() *boardViews {
	b := &f.boardReader
	if last := b.last.Load(); last != nil {
		if time.Since(last.read) < boardPace || !b.mu.TryLock() {
			return last
		}
	} else {
		b.mu.Lock()
	}
	defer b.mu.Unlock()
	if last := b.last.Load(); last != nil && time.Since(last.read) < boardPace {
		return last
	}
	b.last.Store(f.readBoard(&b.board))
	return b.last.Load()
}

func (f *Frontend) readBoard(of *board.Board) *boardViews {
	open, _ := f.pool.Jobs()
	totals := f.metrics.Totals()
	views := &boardViews{read: time.Now()}
	figures := of.Step(board.Reading{At: views.read.Sub(f.started).Seconds(), Pool: f.pool.State(), Totals: totals, Open: open, Trouble: f.schedulerSilent(boardSilence)})
	figures.Version = f.cfg.Version
	var page, now bytes.Buffer
	if err := errors.Join(figures.Page(&page), figures.Now(&now)); err != nil {
		panic(err) // templates of this program with figures of their types
	}
	views.page, views.now = page.Bytes(), now.Bytes()
	return views
}

func (f *Frontend) boardHome(x *exchange, r *http.Request) {
	http.Redirect(x, r, "/ui", http.StatusFound)
}

// boardPage answers with the page of the server, boardNow with the part of it that changes.
func (f *Frontend) boardPage(x *exchange, _ *http.Request) { writePage(x, f.boardViews().page) }
func (f *Frontend) boardNow(x *exchange, _ *http.Request)  { writePage(x, f.boardViews().now) }

func writePage(x *exchange, page []byte) {
	pageHeaders(x.Header())
	x.Header().Set("Cache-Control", "no-store")
	x.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = x.Write(page)
}

// boardFile answers with a file of the page.
func (f *Frontend) boardFile(x *exchange, r *http.Request) {
	name := chi.URLParam(r, "file")
	if _, err := board.Files.Open(name); err != nil || name == "." {
		f.refuse(x, unknownPath(r.URL.Path))
		return
	}
	pageHeaders(x.Header())
	http.ServeFileFS(x, r, board.Files, name)
}
