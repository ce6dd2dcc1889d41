// Package collectenv is `prefillonly collect-env`: what a report of a fault should tell of the machine, the program and its
// settings, without secrets.
package collectenv

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Item is one thing that is told; where it could not be found out, why.
type Item struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
	Error string `json:"error,omitempty"`
}

// Section is what one probe tells.
type Section struct {
	Title string `json:"title"`
	Items []Item `json:"items"`
}

// probe finds out about one thing.
type probe struct {
	title string
	run   func(*found)
}

// found gathers what a probe finds out.
type found struct{ items []Item }

// addItem is an item of a value, or of why there is none.
func (f *found) addItem(name, value string, err error) {
	item := Item{Name: name, Value: hideSecrets(value)}
	if err != nil {
		item = Item{Name: name, Error: hideSecrets(err.Error())}
	}
	f.items = append(f.items, item)
}

// probeLimit is what one probe may take: a driver that hangs must not keep the others from being told.
const probeLimit = 10 * time.Second

// runProbes runs the probes, one by one. One that fails, panics or takes too long says so in its section, and the others go on.
func runProbes(probes []probe, limit time.Duration) []Section {
	var sections []Section
	for _, p := range probes {
		done := make(chan []Item, 1)
		go func() { done <- p.runGuarded() }() // ends with the probe, or with the process
		select {
		case items := <-done:
			sections = append(sections, Section{p.title, items})
		case <-time.After(limit):
			sections = append(sections, Section{p.title, []Item{{Name: "all", Error: fmt.Sprintf("no answer in %v", limit)}}})
		}
	}
	return sections
}

func (p *probe) runGuarded() (items []Item) {
	f := &found{}
	defer func() {
		if fault := recover(); fault != nil {
			f.addItem("all", "", fmt.Errorf("the probe failed: %v", fault))
		}
		items = f.items
	}()
	p.run(f)
	return nil
}

// formatSections is the report as people read it.
func formatSections(sections []Section) string {
	var b strings.Builder
	for i, s := range sections {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "== %s\n", s.Title)
		for _, item := range s.Items {
			value := item.Value
			if item.Error != "" {
				value = "(not known: " + item.Error + ")"
			}
			if strings.Contains(value, "\n") {
				value = "\n    " + strings.ReplaceAll(strings.TrimRight(value, "\n"), "\n", "\n    ")
			}
			fmt.Fprintf(&b, "%-22s %s\n", item.Name+":", value)
		}
	}
	return b.String()
}

var (
	// secretName is in names of variables whose values are not shown; one that ends in FILE names where a secret is.
	secretName = regexp.MustCompile(`(?i)KEY|TOKEN|SECRET|PASS|AUTH|CREDENTIAL|HEADERS|COOKIE`)
	fileName   = regexp.MustCompile(`(?i)(FILE|DIR|PATH)$`)
	// inURL ends at the last @, as a password may have slashes and more of them; what follows a port is hidden with it.
	inURL    = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)(?:[^/\s'":]*:[^\s'"]*|[^/\s'"?#]*)@`)
	scheme   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://`)
	inQuery  = regexp.MustCompile(`([?&][^=&\s'"#]+=)[^&\s'"#]+`)
	asHeader = regexp.MustCompile(`(?i)(bearer\s+|\b(?:sk|hf|ghp)[-_])[A-Za-z0-9._~+/=-]+`)
)

const hidden = "***"

// hideSecrets takes out of a text what URLs hold besides the place: user, password and values of the query; and what looks like a key.
func hideSecrets(s string) string {
	s = inURL.ReplaceAllString(s, "${1}"+hidden+"@")
	s = inQuery.ReplaceAllString(s, "${1}"+hidden)
	return asHeader.ReplaceAllString(s, "${1}"+hidden)
}

// shownVariable is a variable's value as it may be shown.
func shownVariable(name, value string) string {
	if secretName.MatchString(name) && !fileName.MatchString(name) && value != "" {
		return hidden
	}
	if at := strings.LastIndex(value, "@"); at >= 0 && strings.HasSuffix(strings.ToLower(name), "_proxy") {
		return scheme.FindString(value) + hidden + value[at:]
	}
	return hideSecrets(value)
}
