package config

import (
	"fmt"
	"strconv"
	"strings"
)

// KVEvents says whether and where the changes of the prefix caches are published. The zero value is
// off.
type KVEvents struct {
	Enabled        bool
	Endpoint       string // empty: LoopbackEvents, listened on
	ReplayEndpoint string // empty: nothing is replayed
	Topic          string
	BufferSteps    int // batches kept for replay
	HWM            int // batches kept for a slow subscriber
}

// LoopbackEvents is where events are published when no endpoint is given. vLLM's default is this port on every
// address; events hold prompts, so that is for the user to ask for.
const LoopbackEvents = "tcp://127.0.0.1:5557"

// defaultKVEvents are vLLM's defaults, the endpoint excepted.
func defaultKVEvents() KVEvents { return KVEvents{BufferSteps: 10_000, HWM: 100_000} }

// vllmKeys lists vLLM's keys, and what each sets.
func (k *KVEvents) vllmKeys() []kvEventsKey {
	// Every batch goes to its socket at once, so there is no queue to bound, and there is one kind of
	// publisher: these two keys are only checked.
	publisher, queue := "zmq", 1
	return []kvEventsKey{
		{"enable_kv_cache_events", &k.Enabled},
		{"publisher", &publisher},
		{"endpoint", &k.Endpoint},
		{"replay_endpoint", &k.ReplayEndpoint},
		{"topic", &k.Topic},
		{"buffer_steps", &k.BufferSteps},
		{"hwm", &k.HWM},
		{"max_queue_size", &queue},
	}
}

type kvEventsKey struct {
	name  string
	field any
}

// Set reads a JSON object, which is YAML as well.
func (k *KVEvents) Set(text string) error {
	*k = KVEvents{}
	if text == "" {
		return nil
	}
	tree, err := parseYAML([]byte(text))
	if err != nil || len(tree.Docs) != 1 || tree.Docs[0].Body == nil {
		return fmt.Errorf(`invalid value %q: want a JSON object such as {"enable_kv_cache_events":true}`, text)
	}
	pairs, err := mappingOf(tree.Docs[0].Body)
	if err != nil {
		return fmt.Errorf(`invalid value %q: want a JSON object such as {"enable_kv_cache_events":true}`, text)
	}
	given := defaultKVEvents()
	keys := given.vllmKeys()
	for _, pair := range pairs {
		name := pair.Key.GetToken().Value
		text, err := scalarOf(pair.Value)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := setKVEvents(keys, name, text); err != nil {
			return err
		}
	}
	if given.Enabled {
		*k = given
	}
	return nil
}

// setKVEvents sets one key, and checks it.
func setKVEvents(keys []kvEventsKey, name, text string) error {
	var known []string
	for _, key := range keys {
		known = append(known, key.name)
		if key.name != name {
			continue
		}
		if err := setValue(key.field, text); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		switch n, isInt := key.field.(*int); {
		case isInt && *n < 1:
			return fmt.Errorf("invalid %s %d: want at least 1", name, *n)
		case name == "publisher" && text != "zmq":
			return fmt.Errorf("invalid %s %q: want zmq; to publish nothing, leave enable_kv_cache_events out", name, text)
		}
		return nil
	}
	return fmt.Errorf("unknown key %q: want one of %s", name, strings.Join(known, ", "))
}

// String is the inverse of Set.
func (k KVEvents) String() string {
	if !k.Enabled {
		return ""
	}
	text := ""
	for _, key := range k.vllmKeys() {
		shown := showValue(key.field)
		if _, isText := key.field.(*string); isText {
			shown = strconv.Quote(shown)
		}
		text += fmt.Sprintf(",%q:%s", key.name, shown)
	}
	return "{" + text[1:] + "}"
}
