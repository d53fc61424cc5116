/** Numbers the words of many texts while indexing, so that a word that comes again is analysed only once. */

import { randomInt } from 'node:crypto'
import { apostrophes } from './character-classes.ts'
import { afterPossessive, signEnd, wordEnd } from './word-end.ts'
import { isAsciiWordCode } from './word-terms.ts'

/** Longer ones seldom come again: each has a number of its own. */
const lengthMax = 40
/** Numbers given at once: memory does not grow with a text. */
const foundMax = 1 << 12
/** A slot: hash, place of the text, its length (0 in a free slot), number of the word. */
const slotShift = 2
const slotsMin = 1 << 14
/** Share of the slots that is used before there are more of them. */
const fillMax = 0.7

/** Units of a text that are read at once. */
const unitsMin = 1 << 16

/** By UTF-16 unit: ASCII word characters, and what may follow a word and belong to it. */
const kinds = new Uint8Array(1 << 16)
const inWord = 1
const sign = 2
const apostrophe = 3
for (let code = 0; code < 0x80; code++) kinds[code] = isAsciiWordCode(code) ? inWord : 0
for (const character of '+#') kinds[character.charCodeAt(0)] = sign
for (const code of apostrophes) kinds[code] = apostrophe

/** Another one each time, so that nobody can write words that all come into one slot. */
const multiplier = randomInt(2 ** 31) | 1

/**
 * A table of its own, because a Map would need every word cut out of its text before it can be asked. Texts are copied
 * into typed memory, stretch by stretch, where a unit is read in a quarter of the time that a string takes; words are
 * hashed while their end is looked for, and a known one costs no object.
 */
export class WordNumbers {
  /** Numbers of the words read last, in their order. */
  readonly found = new Int32Array(foundMax)
  /** Words read last that were not known before; their numbers rise by one. The caller empties the list. */
  readonly fresh: string[] = []
  count = 0
  #slots = new Int32Array(slotsMin << slotShift)
  #texts = new Uint16Array(1 << 14)
  #textsFilled = 0
  #text = ''
  /** A stretch of the text and a 0, which ends its last word. */
  #units = new Uint16Array(unitsMin)
  #unitBytes = Buffer.from(this.#units.buffer)
  /** Where the stretch begins in the text, its length, and where to read on in it. */
  #from = 0
  #length = 0
  #at = 0

  begin(text: string): void {
    if (this.#units.length > unitsMin) this.#setRoom(unitsMin)
    this.#text = text
    this.#takeStretch(0)
  }

  /** Reads on in the text; how many numbers are in `found`, 0 at its end. */
  next(): number {
    for (;;) {
      const count = this.#readStretch()
      if (count > 0) return count
      if (this.#isLast()) break
      // A word that fills a stretch needs a larger one.
      if (this.#at === 0) this.#setRoom(this.#units.length * 2)
      this.#takeStretch(this.#from + this.#at)
    }
    // The text may be large: it is not held until the next one comes.
    this.#text = ''
    this.#length = 0
    return 0
  }

  #isLast(): boolean {
    return this.#from + this.#length >= this.#text.length
  }

  #takeStretch(from: number): void {
    const end = Math.min(this.#text.length, from + this.#units.length - 1)
    this.#from = from
    this.#length = Math.max(0, end - from)
    this.#at = 0
    this.#unitBytes.write(this.#text.slice(from, end), 'utf16le')
    this.#units[this.#length] = 0
  }

  /** Reads on in the stretch. A word that touches its end, with text behind it, is left for the next one. */
  #readStretch(): number {
    const units = this.#units
    const text = this.#text
    const from = this.#from
    const length = this.#length
    // A word that ends here or later may go on in the next stretch.
    const limit = this.#isLast() ? length + 1 : length
    let at = this.#at
    let count = 0
    while (at < length && count < foundMax) {
      const start = at
      let hash = 0
      let code = units[at]!
      while (kinds[code] === inWord) {
        hash = (Math.imul(hash, multiplier) + code) | 0
        code = units[++at]!
      }
      const isSigned = kinds[code] === sign && at > start
      if (code > 0x7f || isSigned) {
        const end = isSigned ? signEnd(text, from + at) : wordEnd(text, from + start, from + at)
        const stop = Math.min(end - from, length)
        for (; at < stop; at++) hash = (Math.imul(hash, multiplier) + units[at]!) | 0
        code = units[at]!
      }
      if (at === start) {
        at++
        continue
      }
      if (at >= limit) {
        at = start
        break
      }
      this.found[count++] = at - start > lengthMax ? this.#name(start, at) : this.#find(start, at, hash)
      if (kinds[code] === apostrophe) at = afterPossessive(text, from + at) - from
    }
    this.#at = at
    return count
  }

  /** Numbers begin at 0 again. */
  forget(): void {
    this.#slots.fill(0)
    this.count = 0
    this.#textsFilled = 0
  }

  #setRoom(units: number): void {
    this.#units = new Uint16Array(units)
    this.#unitBytes = Buffer.from(this.#units.buffer)
  }

  #find(start: number, end: number, hash: number): number {
    const slots = this.#slots
    const mask = slots.length - 1
    const length = end - start
    let slot = ((hash ^ (hash >>> 15)) << slotShift) & mask
    while (slots[slot + 2] !== 0) {
      if (slots[slot] === hash && slots[slot + 2] === length && this.#isAt(slots[slot + 1]!, start, length)) {
        return slots[slot + 3]!
      }
      slot = (slot + (1 << slotShift)) & mask
    }
    slots[slot] = hash
    slots[slot + 1] = this.#keep(start, end)
    slots[slot + 2] = length
    slots[slot + 3] = this.count
    const number = this.#name(start, end)
    if (this.count << slotShift > slots.length * fillMax) this.#growSlots()
    return number
  }

  #isAt(place: number, start: number, length: number): boolean {
    const texts = this.#texts
    const units = this.#units
    for (let i = 0; i < length; i++) if (texts[place + i] !== units[start + i]) return false
    return true
  }

  #name(start: number, end: number): number {
    this.fresh.push(this.#text.slice(this.#from + start, this.#from + end))
    return this.count++
  }

  #keep(start: number, end: number): number {
    const place = this.#textsFilled
    if (place + lengthMax > this.#texts.length) {
      const larger = new Uint16Array(this.#texts.length * 2)
      larger.set(this.#texts)
      this.#texts = larger
    }
    for (let at = start; at < end; at++) this.#texts[this.#textsFilled++] = this.#units[at]!
    return place
  }

  #growSlots(): void {
    const old = this.#slots
    const slots = new Int32Array(old.length * 2)
    const mask = slots.length - 1
    for (let from = 0; from < old.length; from += 1 << slotShift) {
      if (old[from + 2] === 0) continue
      const hash = old[from]!
      let slot = ((hash ^ (hash >>> 15)) << slotShift) & mask
      while (slots[slot + 2] !== 0) slot = (slot + (1 << slotShift)) & mask
      for (let i = 0; i < 1 << slotShift; i++) slots[slot + i] = old[from + i]!
    }
    this.#slots = slots
  }
}
