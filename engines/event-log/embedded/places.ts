/** What the main thread knows of topics and partitions: limits, first and next offsets, who reads. */

import { AppError } from '#lib/errors.ts'
import type { PartitionRange, StoredRecord, TopicSpec } from '../port.ts'
import type { PlaceSnapshot, TopicSnapshot } from './writer.ts'

/** One partition. `start` and `end` are what is durable; readers hear of every change. */
export interface Place {
  readonly id: number
  readonly topic: Topic
  readonly partition: number
  start: number
  end: number
  gone: boolean
  readonly readers: Set<PlaceReader>
}

export interface PlaceReader {
  /** `count` records are durable from `first` on; `take` gives them, when it is worth to skip the file. */
  appended(first: number, count: number, take: (() => StoredRecord[]) | null): void
  /** The start moved or the partition is gone: look again. */
  changed(): void
}

export interface Topic {
  spec: TopicSpec
  places: Place[]
  /** Groups and tails that want to hear of added partitions and of the end of the topic. */
  readonly watchers: Set<() => void>
}

export interface Places {
  readonly topics: Map<string, Topic>
  add(snapshot: TopicSnapshot): Topic
  grow(topic: Topic, places: PlaceSnapshot[]): void
  remove(topic: Topic): void
  /** By the id that the threads use. */
  byId(id: number): Place | undefined
  /** Throws AppError `not_found`. */
  topic(name: string): Topic
  /** Throws AppError `not_found`. */
  place(topic: string, partition: number): Place
}

export function createPlaces(): Places {
  const topics = new Map<string, Topic>()
  const ids = new Map<number, Place>()
  function addPlace(topic: Topic, { id, partition, start, end }: PlaceSnapshot): void {
    const place = { id, topic, partition, start, end, gone: false, readers: new Set<PlaceReader>() }
    topic.places[partition] = place
    ids.set(id, place)
  }
  function topicByName(name: string): Topic {
    const topic = topics.get(name)
    if (!topic) throw new AppError('not_found', `The topic ${name} does not exist.`)
    return topic
  }
  return {
    topics,
    add({ spec, places }) {
      const topic: Topic = { spec, places: [], watchers: new Set() }
      for (const place of places) addPlace(topic, place)
      topics.set(spec.name, topic)
      return topic
    },
    grow(topic, places) {
      for (const place of places) addPlace(topic, place)
      topic.spec = { ...topic.spec, partitions: topic.places.length }
      for (const heard of [...topic.watchers]) heard()
    },
    remove(topic) {
      topics.delete(topic.spec.name)
      for (const place of topic.places) {
        place.gone = true
        ids.delete(place.id)
        for (const reader of [...place.readers]) reader.changed()
      }
    },
    byId: (id) => ids.get(id),
    topic: topicByName,
    place(name, partition) {
      const place = topicByName(name).places[partition]
      if (!place) throw new AppError('not_found', `The topic ${name} has no partition ${partition}.`)
      return place
    },
  }
}

export const rangeOf = ({ partition, start, end }: Place): PartitionRange => ({ partition, start, end })
