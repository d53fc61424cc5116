/** The classes of all characters above ASCII, frozen, so that an index and its queries agree on every engine. */

/**
 * Lengths of runs from U+0080 on (base 36), each followed by its class: S separates words, W is part of words, B is
 * in words of scripts that are written without spaces, M is a mark of those scripts, I is not there for a search (soft
 * hyphen, marks of direction, variation selectors), P is a pictograph, a word of its own. Taken from Unicode 14; what
 * came later separates, except ideographs and code points that Unicode reserves for pictographs. Unlike in Unicode,
 * letters that are written as apostrophes (U+02BC) and the zero width space are separators.
 */
const runs =
  '16S1W2S1I4S2W1S1W3S2W1S3W1SnW1SvW1SchW7S2W4ScWeS5W7S1WjS39W1S2W2S4W1S1W6S1W1S3W1S1W1SkW1S2bW1S3vW1S4' +
  'tW1S12W2S1W6S15W8S19W1S1W1S2W1S2W1S1W8SrW4S4WdS6IaSbW1S1I3S22W4S2uW1S8W1I1SaW1SjW2S1WfS1I1nW2S2tWeS1' +
  'iW4S1W2S1W2S1aWiSsW4SbW5SoW1S6W1S2I6S22W1I3lW2SaW1SjW1S8W2S2W2SmW1S7W1S1W3S4W2S9W2S2W2S4W8S1W4S2W1S5' +
  'W2ScW2S6W2S1W1S1W2S3W1S6W4S2W2SmW1S7W1S2W1S2W1S2W2S1W1S5W4S2W2S3W3S1W7S4W1S1W7SgWbS3W1S9W1S3W1SmW1S7' +
  'W1S2W1S5W2SaW1S3W1S3W2S1WfS4W2SaW9S7W1S3W1S8W2S2W2SmW1S7W1S2W1S5W2S9W2S2W2S3W7S3W4S2W1S5W2SaW1S7WaS2' +
  'W1S6W3S3W1S4W3S2W1S1W1S2W3S2W3S3W3ScW4S5W3S3W1S4W2S1W6S1WeSdWdSdW1S3W1SnW1SgW2S9W1S3W1S4W7S2W1S3W2S1' +
  'W2S4W2SaW8S7W1S4W1S8W1S3W1SnW1SaW1S5W2S9W1S3W1S4W7S2W6S2W1S4W2SaW1S2WdSdW1S3W1S1fW1S3W1S5W5SgW2SjW1S' +
  '6W1S3W1SiW3SoW1S9W1S1W2S7W3S1W4S6W1S1W1S8W6SaW2S2WdS1cB1M2B7M5S7B8M1SaW13S2B1S1B1S5B1SoB1S1B1SaB1M2B' +
  '9M1B2S5B1S1B1S6M2SaW2S4WwS1WnS2W6SkW1S1W1S1W1S1W4SaW1S10W4SkW1SiW1S10W9S1W1lS17BkM1BaW6S6B4M4B3M1B3M' +
  '2B7M3B4MdBcM1B1MaW4M2S12W1S1W5S1W2S17W1S4W74B21W1S4W2S7W1S1W1S4W2S15W1S4W2SxW1S4W2S7W1S1W1S4W2SfW1S1' +
  'lW1S4W2S1vW2S3W9SkW3SgWgS2eW2S6W3Sh8W2ShW1SqW5S23W3SbW7SmW9SmWbSkWcSdW1S3W1S2WcS1gBwM3S1W4S2W2SaW6Sa' +
  'WhS3W1IbW6S2hW7S17W5S1yWaSvW1ScW4ScWaS14W2S5WbS18W4SqW6SbW11SsW4S1rW1StW2SbW6SaWdS1W8SvW1dS25W3SaWhS' +
  '9WcS38WcS1kW8SaW3S1dW2S9W7S17W2S3WgS3W1S13W5SeuW2S6W2S12W2S6W2S8W1S1W1S1W1S1W1SvW2S1hW1S7W1S1W3S3W1S' +
  '7W3S4W2S6W4SdW5S3W1S7WgS3IqS5I1dS1I5SaI2W2S6W5SbW6SdW1fSxWhS1W4S1W2SaW1S1W3S5W6S1W1S1W1S1W1S4W1SbW2S' +
  '4W5S5W4S1W1S1mWaS6PfS2P9hS8P4SkP2S7P2S29P1SuPpS14P6SuP2oS1oW12S1P13SmW4qS2PaS1P9S1P1mS4P1Sa0PeSuW18P' +
  'acS2PcvS3PjS2P1fS1P4S1P4qS6dW6S9W9S1W2S12W1S1W5S1W2S1kW7S1WfSoW9S7W1S7W1S7W1S7W1S7W1S7W1S7W1S7W1SwW1' +
  'bS1Wd1S3BpSfW1S5W2S5W1P3S2eB2S2M2S3B1S2iB1S4B5S17B1S2mW3S4WaSwB1cSgBwSaWuS8W1SfWwSaWdS1P1S1PnSfW8wS5' +
  '34B1sSg74BwdW1vS1aW2S7hW3SsWkS1fW1SaW1S37W11S9W2S2vW4S1qW5S2W1S1W1S5WoS1iW4S1W3S6WaS1gWcS1yWaSaW6SoW' +
  '3S1W1S1dW2S10WcStB3S1tWeSbW6SvW1S1jW9SeW2SaW6SnB3S1B3M2B1vWoS3W2SgW2S5WaS6W2S6W2S6W9S7W1S7W1S17W1SeW' +
  '6S3fW1S2W2SaW6S8mcBcSnB4S1dB6isSa6B2S2yB12S7WcS5W5ScW1SdW1S5W1S1W1S2W1S2W1S30WxSa3WiS1sW2S1iW14ScW4S' +
  'gIgSgW1sS5W1S3rW2S1IgSaW7SqW6SqWbS2hW3S6W2S6W2S6W2S3WzScW1SqW1SjW1S2W1SfW2SeWyS3fWcS19WcS1lWhS2W35S1' +
  'W3mStW3S1dWfSsW4S10W9SuW5S17W5SuW2S10W4S8W1S5W16S4eW2SaW6S10W4S10W4S14W8S1gWcSbW1SfW1S7W1S2W1SbW1SfW' +
  '1S7W1S2W1vS8nW9SmWaS8WoS6W1S16W1S9W1xS6W2S1W1S18W1S2W3S1W2SnW2SvW2S12W8S9W1cSjW1S2W5SxW4SqW1yS1kW4Sk' +
  'W2S1eW1S2W5S8W1S3W1StW2S3W4SaWnSvW1SwWwS8W1SuW4S5WgS1iWaSmW2SrW5SqWnS7W28S21W1jS1fWdS1fW7S1aW8SaW86S' +
  'vW1S16W1S2W3S2W26S14W8S11WrSmW16SsWkSnW9S1zWbS10W9S1oW2S1I4S1WaS1I2SpW7SaW6S1hW1SaW4S4W8S10W2S1W9S1x' +
  'W4S4W1SdW1S1W4SkWbSiW1S11W6S1W1tS7W1S1W1S4W1SfW1SaW7S1nW5SaW6S4W1S8W2S2W2SmW1S7W1S2W1S5W1SaW2S2W2S3W' +
  '2S1W6S1W5S7W2S7W3S5W3vS23W5SaW4S4WuS1yW1S1W8SaW4mS1iW2S9WnS6WyS1tW3S1WbSaW12S1lW7SaW1iSrW2SfW4ScW4S7' +
  'W55S1nW2tS2bWcS8W2S1W2S8W1S2W1SuW1S2W2S9WcSaW1yS8W2S1aW2S8W1S2WrS1rW8S1W8S22W3S1WiS21W7bS9W1S19W1S9W' +
  'fStW5SuW2SmW1SeW21S7W1S2W1S18W3S1W1S2W1S9W8SaW6S6W1S2W1S11W1S2W1S6W7SaW8mSnW55S1WfSlW17SpmW2uS33WhS5' +
  'gW218S2pWfStrW1S9I347Sg7W6ntSftW7SvW1SaW6S27W1SaW6SuW2S5WbS1jW9S4WcSaW1S7W1SlW5SjWj4S2fW2xS23W4S1lW7' +
  'ShW1sS2W1S2WbS2WeS4qgW8SyeW16S9W6w7S4B1S7B1S2B1S83B19S3BhS4B8Sb0W1s4S2zW5SdW3S9W7SaW3S2W1S4I3mkS1aW2' +
  'SnWf2S5W3S6W8I8W2S7WuS4W44S3W4bSkW30SpW3rS2dW1S1zW1S2W2S1W2S2W2S4W1ScW1S1W1S7W1S1tW1S4W2S8W1S7W1SsW1' +
  'S4W1S5W1S1W3S7W1S9gW2SpW1SpW1SvW1SpW1SvW1SpW1SvW1SpW1SvW1SpW1S8W2S1eWe8S1jW4S1eW8S1WeS1WmS5W1SfWuoSv' +
  'W69S7W1ShW2S7W1S2W1S5W5xS19W3SeW2SaW4S1W8xSvWhS1mWyuS7W1S4W1S2W1SfW1S5hW2SgW15S24W4SaWlzS1nW1S3W1S4W' +
  '24S19W1SfW5eS4W1SrW1S2W1S1W2S1W1SaW1S4W1S1W1S1W6S1W4S1W1S1W1S1W1S3W1S2W1S1W2S1W1S1W1S1W1S1W1S1W1S2W1' +
  'S1W2S4W1S7W1S4W1S4W1S1W1SaW1ShW5S3W1S5W1ShW90S74PdWkuP5S1dsP6oSaW6SseP2S2t4uBe1ojS1IuS2oI3kS6oI47bkS'

export const separator = 0
export const letter = 1
/** A character of a script that is written without spaces: its words are taken in pairs of characters. */
export const paired = 2
/** A mark of those scripts; belongs to the character before it. */
export const pairedMark = 3
/** Not there for a search. */
export const ignored = 4
/** A word of its own, whatever is next to it. */
export const pictograph = 5

const letters = 'SWBMIP'

interface Classes {
  /** One byte for each of the first 65,536 characters. */
  basic: Uint8Array
  /** Where runs begin beyond them, and the class of each. */
  starts: number[]
  classes: number[]
}

/** Made when the first character above ASCII comes: most searches never need it. */
let made: Classes | undefined

/** The class of a code point from U+0080 on. */
export function classOf(code: number): number {
  made ??= decode()
  if (code < 0x10000) return made.basic[code]!
  const { starts, classes } = made
  let low = 0
  let high = starts.length
  while (high - low > 1) {
    const middle = (low + high) >> 1
    if (starts[middle]! <= code) low = middle
    else high = middle
  }
  return classes[low]!
}

function decode(): Classes {
  const found: Classes = { basic: new Uint8Array(0x10000), starts: [], classes: [] }
  let at = 0x80
  let length = 0
  for (let i = 0; i < runs.length; i++) {
    const code = runs.charCodeAt(i)
    if (code < 65 || code > 90) {
      length = length * 36 + (code < 58 ? code - 48 : code - 87)
      continue
    }
    const kind = letters.indexOf(runs[i]!)
    if (at < 0x10000) found.basic.fill(kind, at, at + length)
    if (at + length > 0x10000) {
      found.starts.push(Math.max(at, 0x10000))
      found.classes.push(kind)
    }
    at += length
    length = 0
  }
  return found
}

/**
 * People type one for the other: each may begin a possessive, and titles compare equal with any of them. U+02B9 to U+02BF
 * are letters: soft sign, okina, apostrophe, hamza and ayin.
 */
export const apostrophes: ReadonlySet<number> = new Set([
  ...[0x27, 0x60, 0xb4, 0x2b9, 0x2bb, 0x2bc, 0x2bd, 0x2be, 0x2bf],
  ...[0x2018, 0x2019, 0x201b, 0x2032, 0xa78b, 0xa78c, 0xff07],
])
