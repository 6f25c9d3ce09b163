import Lake
open Lake DSL

-- Mathlib as MiniF2F's statements were written for. `lake-manifest.json`, which `lake update` writes, pins the rest.

package rapid

require mathlib from git "https://github.com/leanprover-community/mathlib4" @ "v4.9.0"
