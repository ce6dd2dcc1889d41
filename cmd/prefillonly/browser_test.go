package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// browser is Chromium with one page, over the pipe of its DevTools protocol.
type browser struct {
	*testing.T
	to      *os.File
	from    *bufio.Reader
	session string
	number  int
	on      func(method string, params json.RawMessage) // takes events, if it is there
}

func browse(t *testing.T, chromium, url string) *browser {
	t.Helper()
	cmd := exec.Command(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--remote-debugging-pipe", "--window-size=1180,860", "--user-data-dir="+filepath.Join(t.TempDir(), "profile"), "about:blank")
	ours, theirs := pipes(t), pipes(t)
	cmd.ExtraFiles = []*os.File{ours[0], theirs[1]} // it reads 3 and writes 4
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ours[0].Close()
	theirs[1].Close()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	b := &browser{T: t, to: ours[1], from: bufio.NewReader(theirs[0])}
	if err := theirs[0].SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	var target struct{ TargetID string }
	b.into(&target, "Target.createTarget", map[string]any{"url": url})
	var attached struct{ SessionID string }
	b.into(&attached, "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true})
	b.session = attached.SessionID
	return b
}

func pipes(t *testing.T) [2]*os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return [2]*os.File{r, w}
}

func (b *browser) into(result any, method string, params any) {
	b.Helper()
	if err := json.Unmarshal(b.send(method, params), result); err != nil {
		b.Fatal(err)
	}
}

// send sends a command and waits for its result.
func (b *browser) send(method string, params any) json.RawMessage {
	b.Helper()
	number := b.post(method, params)
	for {
		line, err := b.from.ReadBytes(0)
		if err != nil {
			b.Fatalf("%s: the browser says no more: %v", method, err)
		}
		var said struct {
			ID             int
			Result, Params json.RawMessage
			Method         string
			Error          *struct{ Message string }
		}
		if err := json.Unmarshal(line[:len(line)-1], &said); err != nil {
			b.Fatal(err)
		}
		if said.Method != "" && b.on != nil {
			b.on(said.Method, said.Params)
		}
		if said.ID != number {
			continue
		}
		if said.Error != nil {
			b.Fatalf("%s: %s", method, said.Error.Message)
		}
		return said.Result
	}
}

// post sends a command, and returns its number.
func (b *browser) post(method string, params any) int {
	b.Helper()
	b.number++
	message := map[string]any{"id": b.number, "method": method, "params": params}
	if b.session != "" {
		message["sessionId"] = b.session
	}
	text, err := json.Marshal(message)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := b.to.Write(append(text, 0)); err != nil {
		b.Fatal(err)
	}
	return b.number
}

// giveKeys answers with each of these where the browser asks for a key, until asked is called, which holds it to have asked as often.
func (b *browser) giveKeys(passwords ...string) (asked func()) {
	b.Helper()
	b.on = func(method string, params json.RawMessage) {
		var paused struct{ RequestID string }
		if err := json.Unmarshal(params, &paused); err != nil {
			b.Fatal(err)
		}
		switch method {
		case "Fetch.requestPaused":
			b.post("Fetch.continueRequest", map[string]any{"requestId": paused.RequestID})
		case "Fetch.authRequired":
			if len(passwords) == 0 {
				b.Fatal("the browser asks for the key once more")
			}
			answer := map[string]string{"response": "ProvideCredentials", "username": "any", "password": passwords[0]}
			b.post("Fetch.continueWithAuth", map[string]any{"requestId": paused.RequestID, "authChallengeResponse": answer})
			passwords = passwords[1:]
		}
	}
	b.send("Fetch.enable", map[string]any{"handleAuthRequests": true})
	return func() {
		b.Helper()
		if len(passwords) > 0 {
			b.Errorf("the browser was not asked for the key as often as that: %v are left", passwords)
		}
		b.send("Fetch.disable", nil)
		b.on = nil
	}
}

// is says whether an expression is true on the page.
func (b *browser) is(expression string) bool {
	b.Helper()
	var answer struct{ Result struct{ Value any } }
	b.into(&answer, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true})
	return answer.Result.Value == true
}

// key presses a key, which writes text.
func (b *browser) key(name, text string) {
	b.Helper()
	code := map[string]int{"Tab": 9, "Enter": 13}[name]
	b.send("Input.dispatchKeyEvent", map[string]any{"type": "keyDown", "key": name, "code": name, "windowsVirtualKeyCode": code, "text": text})
	b.send("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": name, "code": name, "windowsVirtualKeyCode": code})
}

// tabTo presses Tab until the field of a name, or the button of a text, has the focus.
func (b *browser) tabTo(name string) {
	b.Helper()
	for range 30 {
		if b.is(fmt.Sprintf(`document.activeElement.name === %q || document.activeElement.textContent === %q`, name, name)) {
			return
		}
		b.key("Tab", "")
	}
	b.Fatalf("Tab does not lead to %s", name)
}

// fill writes text in place of what the field has.
func (b *browser) fill(text string) {
	b.Helper()
	b.is(`document.activeElement.select()`)
	b.send("Input.insertText", map[string]any{"text": text})
}

// until waits until an expression is true on the page.
func (b *browser) until(expression string) {
	b.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(150 * time.Millisecond) {
		if b.is(expression) {
			return
		}
	}
	var page struct{ Result struct{ Value string } }
	b.into(&page, "Runtime.evaluate", map[string]any{"expression": "document.body.innerText", "returnByValue": true})
	b.screenshot("../../build/page-failed.png")
	b.Fatalf("not within 2 minutes: %s\nthe page says:\n%s", expression, page.Result.Value)
}

func (b *browser) screenshot(name string) {
	b.Helper()
	var shot struct{ Data string }
	b.into(&shot, "Page.captureScreenshot", map[string]any{"format": "png"})
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	if err != nil {
		b.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(name, data, 0o644); err != nil {
		b.Fatal(err)
	}
}
