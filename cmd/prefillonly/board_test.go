package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

var picture = flag.Bool("picture", false, "have TestServerPage make docs/ui.png anew, after 90 s of requests, and do no more")

// hostileName is a model's that would be a script on a page that does not escape it.
const hostileName = `</script><img src=x onerror="window.hostile=1">{{.}}'`

// TestServerPage: in a browser that has given the key, the page of the server has its figures without JavaScript, and live with it; requests are tried by
// keyboard; it fits a narrow screen, takes a model's name as nothing but text, and asks no other host. It says so while the scheduler stands still, and
// goes on by itself, as after kill -9. Pictures of it are kept as build/ui.png and build/ui-phone.png.
func TestServerPage(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser and a server take 20 s")
	}
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("the browser chromium is missing; `make test` as root installs it")
	}
	name := hostileName
	if *picture {
		name = "prefillonly-demo"
	}
	p := serve(t, []string{"PREFILLONLY_API_KEY=sesame"}, "--device", "cpu", "--served-model-name", name, "--hang-timeout", "60s")
	b := browse(t, chromium, "about:blank")
	asked := b.giveKeys("guess", "sesame")
	b.send("Emulation.setScriptExecutionDisabled", map[string]any{"value": true})
	b.send("Page.navigate", map[string]any{"url": p.base + "/"})
	b.until(fmt.Sprintf(`document.querySelector("#models td")?.textContent === %q && document.querySelector("#try").hidden`, name))
	asked()
	stop := p.keepAsking("sesame")
	b.until(`parseFloat(document.querySelector("#requests")?.textContent) > 0 && parseFloat(document.querySelector("#p99").textContent) > 0`)

	foreign := ""
	b.on = func(method string, params json.RawMessage) {
		var sent struct{ Request struct{ URL string } }
		if method == "Network.requestWillBeSent" && json.Unmarshal(params, &sent) == nil && !strings.HasPrefix(sent.Request.URL, p.base+"/") && !strings.HasPrefix(sent.Request.URL, "data:") {
			foreign = sent.Request.URL
		}
	}
	b.send("Network.enable", nil)
	b.send("Emulation.setScriptExecutionDisabled", map[string]any{"value": false})
	b.send("Page.navigate", map[string]any{"url": p.base + "/ui"})
	b.until(`document.querySelector("#try")?.hidden === false && !document.querySelector(".charts").hidden`)
	b.is(`window.before = document.querySelector("#now").dataset.points`)
	b.until(`document.querySelector("#now").dataset.points !== window.before && document.querySelector("#chart-requests").getAttribute("aria-label").includes("requests")`)

	b.tabTo("text")
	b.fill("The capital of France is")
	b.tabTo("tokens")
	b.fill("3")
	b.key("Enter", "\r")
	b.until(`document.querySelectorAll("#answer tbody tr").length === 3 && document.querySelector("#timing").textContent.includes("ms at the server")`)
	b.is(`document.activeElement.blur() || scrollTo(0, 0)`)
	b.screenshot("../../build/ui.png")
	if *picture {
		b.keepPicture("../../docs/ui.png")
		return
	}
	b.choose("kind", "e")
	b.tabTo("Send")
	b.key("Enter", "\r")
	b.until(`document.querySelector("#answer tbody td")?.textContent === "256"`)
	b.choose("kind", "s")
	b.tabTo("Send")
	b.key("Enter", "\r")
	b.until(`!document.querySelector("#refused").hidden && document.querySelector("#refused").textContent.length > 20`) // a language model gives no scores, and says so

	b.send("Emulation.setDeviceMetricsOverride", map[string]any{"width": 320, "height": 640, "deviceScaleFactor": 2, "mobile": true})
	b.send("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": "dark"}}})
	b.until(`innerWidth === 320 && document.documentElement.scrollWidth <= 320`)
	b.screenshot("../../build/ui-phone.png")

	b.until(`document.querySelector("#old").hidden`)
	halted := p.halt("scheduler")
	b.until(`!document.querySelector("#old").hidden && document.querySelector("#old").textContent.includes("the scheduler has been silent")`)
	_ = syscall.Kill(halted, syscall.SIGCONT)
	b.until(`document.querySelector("#old").hidden`)
	p.strike("scheduler", syscall.SIGKILL)
	b.until(`document.querySelector("#old").hidden && document.querySelector("#trouble").hidden && parseFloat(document.querySelector("#requests").textContent) > 0`)
	stop()
	if b.is(`window.hostile === 1 || document.querySelector("img") !== null`) {
		t.Error("a model's name is taken for HTML")
	}
	if foreign != "" {
		t.Errorf("the page asks for %s", foreign)
	}
}

// TestServerPageTriesFiles: a sound that is chosen by hand is written down with its times, and its stage is among those of the processors; a picture for
// which there is no pipeline is refused with what the server says.
func TestServerPageTriesFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser and a server take 10 s")
	}
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("the browser chromium is missing; `make test` as root installs it")
	}
	p := serveSound(t)
	b := browse(t, chromium, p.base+"/ui")
	b.until(`document.querySelector("#try")?.hidden === false`)
	file := filepath.Join(t.TempDir(), "sound.wav")
	if err := os.WriteFile(file, steppedSound(append(bytes.Repeat([]byte{0}, 700), 32, 96, 0)...), 0o600); err != nil {
		t.Fatal(err)
	}
	b.choose("kind", "t")
	b.until(`document.querySelector("#try").elements.model.options.length === 2 && !document.querySelector("#try").elements.sound.parentElement.hidden`)
	b.is(`document.querySelector("#try").elements.model.value = "levels"`)
	b.chooseFile("sound", file)
	b.tabTo("Send")
	b.key("Enter", "\r")
	b.until(`document.querySelector("#answer tbody tr")?.innerText === "70.00 s\t70.20 s\tab" && document.querySelector("#timing").textContent.endsWith("ms at the server.")`)
	b.until(`[...document.querySelectorAll("#stages tbody tr")].some((row) => row.cells[0].textContent === "sound" && row.cells.length === 5) && document.querySelector("#slots").textContent.includes("of 2 slots")`)
	b.choose("kind", "p")
	b.chooseFile("picture", file)
	b.tabTo("Send")
	b.key("Enter", "\r")
	b.until(`document.querySelector("#refused").textContent.includes("names no model")`)
}

// chooseFile has the field of a name take a file.
func (b *browser) chooseFile(field, file string) {
	b.Helper()
	var root struct{ Root struct{ NodeID int } }
	b.into(&root, "DOM.getDocument", nil)
	var found struct{ NodeID int }
	b.into(&found, "DOM.querySelector", map[string]any{"nodeId": root.Root.NodeID, "selector": "[name=" + field + "]"})
	b.send("DOM.setFileInputFiles", map[string]any{"nodeId": found.NodeID, "files": []string{file}})
}

// keepPicture keeps one of the whole page, once its charts are 90 s long.
func (b *browser) keepPicture(name string) {
	b.Helper()
	time.Sleep(90 * time.Second)
	b.send("Emulation.setDeviceMetricsOverride", map[string]any{"width": 1180, "height": 975, "deviceScaleFactor": 1, "mobile": false})
	b.until(`innerHeight === 975`)
	b.screenshot(name)
}

// choose has the field of a name take the choice that begins with a letter.
func (b *browser) choose(name, letter string) {
	b.Helper()
	b.is(`document.body.focus() || document.activeElement.blur()`)
	b.tabTo(name)
	b.key(letter, letter)
	b.until(fmt.Sprintf(`document.activeElement.value[0] === %q`, letter))
}

// keepAsking asks for completions, one after the other, until stop is called.
func (p *program) keepAsking(key string) (stop func()) {
	var over atomic.Bool
	ended := make(chan struct{})
	go func() { // ends with stop
		defer close(ended)
		for n := 0; !over.Load(); n++ {
			r, err := http.NewRequest(http.MethodPost, p.base+"/v1/completions", strings.NewReader(fmt.Sprintf(`{"prompt":"The user %d likes","max_tokens":1}`, n%100)))
			if err != nil {
				p.Error(err)
				return
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Authorization", "Bearer "+key)
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				p.Error(err)
				return
			}
			if text := readAll(p, answer); answer.StatusCode != http.StatusOK {
				p.Errorf("%d %s", answer.StatusCode, text)
				return
			}
		}
	}()
	stop = sync.OnceFunc(func() { over.Store(true); <-ended })
	p.Cleanup(stop)
	return stop
}
