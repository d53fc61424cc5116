/** Records as JSON texts, each made once for the readers that are at about the same place and are shown the same of it. */

import { LRUCache } from 'lru-cache'
import type { StoredRecord } from '#engines/event-log/port.ts'
import { budgets } from '#lib/budgets.ts'
import { recordBytes } from '#runtime/follow/follow-topic.ts'
import { type OpenedRecords, shownOf } from './records.ts'

/** Bytes of stored records; their texts are about as long. */
const keptBytes = budgets.streams.textBytes

export interface RecordTexts {
  /** As `shownOf`. */
  of(opened: OpenedRecords, record: StoredRecord): Promise<string>
}

export function createRecordTexts(maxSize = keptBytes): RecordTexts {
  const texts = new LRUCache<string, Promise<string>>({ maxSize })
  return {
    of(opened, record) {
      const { name, epoch, withheld } = opened
      const place = `${name}/${epoch}/${record.partition}/${record.offset}/${record.timestamp}`
      const key = `${place}/${withheld.join()}`
      const known = texts.get(key)
      if (known) return known
      const text = shownOf(opened, record).then((shown) => JSON.stringify(shown))
      texts.set(key, text, { size: recordBytes(record) + 1 })
      text.catch(() => texts.delete(key))
      return text
    },
  }
}
