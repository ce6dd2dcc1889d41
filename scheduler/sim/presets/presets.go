// Package presets is the settings that are simulated and compared, and the orders of other engines beside the scheduler's:
// cameras beside a language model.
package presets
