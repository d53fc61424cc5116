;; Decodes posting lists, adds up scores and picks the best: the part of a search that touches every posting.
;; scripts/local-search-bundle.ts turns it into kernel-bytes.ts. The memory is laid out by kernel.ts:
;;   0     128 record numbers of the block at hand (u32)
;;   512   16 sums of the literal weights, one for each set of fields (u32)
;;   1024  8 tables of 256 for checksums (u32)
;;   9216  4096 bytes for what is checked without being searched
;;   13312 512 bytes: the key at hand while entries of a page of the tree are walked
;;   13824 512 bytes: the key that is looked for
;;   14336 room for pages, lists and arrays, given out by kernel.ts; behind each list 1024 bytes that may be read
;; A posting list is described in docs/local-search-format.md. Every function returns -1 for one that breaks its rules.
(module
  (memory (export "memory") 2)
  (global $records (mut i32) (i32.const 0))
  (global $scores (mut i32) (i32.const 0))      ;; u32 a record: its score so far, 0 = not met
  (global $met (mut i32) (i32.const 0))         ;; u32 each: the records that were met
  (global $metCount (mut i32) (i32.const 0))
  (global $eligible (mut i32) (i32.const 0))    ;; bit a record: passes the filters; 0 = no filter
  (global $group (mut i32) (i32.const 0))       ;; u16 a record: best impact << 8 | fields, of the word at hand
  (global $inGroup (mut i32) (i32.const 0))     ;; u32 each: the records in $group
  (global $inGroupCount (mut i32) (i32.const 0))

  (func (export "begin") (param $records i32) (param $scores i32) (param $met i32) (param $group i32) (param $inGroup i32)
    (global.set $records (local.get $records))
    (global.set $scores (local.get $scores))
    (global.set $met (local.get $met))
    (global.set $metCount (i32.const 0))
    (global.set $group (local.get $group))
    (global.set $inGroup (local.get $inGroup))
    (global.set $inGroupCount (i32.const 0))
    (global.set $eligible (i32.const 0)))

  ;; The walk through the entries of one page of the tree; the rules are in docs/local-search-format.md.
  (global $at (mut i32) (i32.const 0))
  (global $pageEnd (mut i32) (i32.const 0))
  (global $left (mut i32) (i32.const 0))
  (global $keyLength (mut i32) (i32.const 0))
  (global $valueAt (mut i32) (i32.const 0))

  (func $openPage (export "openPage") (param $page i32)
    (global.set $at (i32.add (local.get $page) (i32.const 8)))
    (global.set $pageEnd (i32.add (local.get $page) (i32.const 2048)))
    (global.set $left (i32.load16_u offset=4 (local.get $page)))
    (global.set $keyLength (i32.const 0)))

  (func $keyPart (result i32)
    (local $low i32)
    (local.set $low (i32.load8_u (global.get $at)))
    (global.set $at (i32.add (global.get $at) (i32.const 1)))
    (if (i32.lt_u (local.get $low) (i32.const 128)) (then (return (local.get $low))))
    (local.set $low (i32.or (i32.and (local.get $low) (i32.const 127))
      (i32.shl (i32.load8_u (global.get $at)) (i32.const 7))))
    (global.set $at (i32.add (global.get $at) (i32.const 1)))
    (local.get $low))

  ;; 1: the next entry is at hand, its key at 13312; 0: there is none; -1: the page breaks the rules.
  (func $nextEntry (export "nextEntry") (result i32)
    (local $shared i32) (local $rest i32) (local $valueLength i32)
    (if (i32.eqz (global.get $left)) (then (return (i32.const 0))))
    (global.set $left (i32.sub (global.get $left) (i32.const 1)))
    (if (i32.ge_u (global.get $at) (global.get $pageEnd)) (then (return (i32.const -1))))
    (local.set $shared (call $keyPart))
    (local.set $rest (call $keyPart))
    (local.set $valueLength (i32.load8_u (global.get $at)))
    (global.set $at (i32.add (global.get $at) (i32.const 1)))
    (global.set $valueAt (i32.add (global.get $at) (local.get $rest)))
    (if (i32.or
          (i32.or
            (i32.gt_u (local.get $shared) (global.get $keyLength))
            (i32.gt_u (i32.add (local.get $shared) (local.get $rest)) (i32.const 256)))
          (i32.gt_u (i32.add (global.get $valueAt) (local.get $valueLength)) (global.get $pageEnd)))
      (then (return (i32.const -1))))
    (memory.copy (i32.add (i32.const 13312) (local.get $shared)) (global.get $at) (local.get $rest))
    (global.set $keyLength (i32.add (local.get $shared) (local.get $rest)))
    (global.set $at (i32.add (global.get $valueAt) (local.get $valueLength)))
    (i32.const 1))

  (func (export "keyLength") (result i32) (global.get $keyLength))
  (func (export "valueAt") (result i32) (global.get $valueAt))
  (func (export "valueLength") (result i32) (i32.sub (global.get $at) (global.get $valueAt)))

  ;; Below 0, 0 or above 0: the key at hand against the one of $length bytes at 13824.
  (func $compareKey (param $length i32) (result i32)
    (local $i i32) (local $most i32) (local $difference i32)
    (local.set $most (select (local.get $length) (global.get $keyLength)
      (i32.lt_u (local.get $length) (global.get $keyLength))))
    (block $ended
      (loop $next
        (br_if $ended (i32.ge_u (local.get $i) (local.get $most)))
        (local.set $difference (i32.sub
          (i32.load8_u offset=13312 (local.get $i)) (i32.load8_u offset=13824 (local.get $i))))
        (if (local.get $difference) (then (return (local.get $difference))))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br $next)))
    (i32.sub (global.get $keyLength) (local.get $length)))

  ;; Walks to the first entry whose key is not below the one at 13824. 2: it is equal; 1: above; 0: there is none; -1.
  (func (export "seekEntry") (param $length i32) (result i32)
    (local $state i32) (local $order i32)
    (loop $next
      (local.set $state (call $nextEntry))
      (if (i32.ne (local.get $state) (i32.const 1)) (then (return (local.get $state))))
      (local.set $order (call $compareKey (local.get $length)))
      (br_if $next (i32.lt_s (local.get $order) (i32.const 0))))
    (select (i32.const 1) (i32.const 2) (local.get $order)))

  ;; The page below in which the key at 13824 would stand: that of the last entry not above it, else of the first; -1.
  (func (export "childFor") (param $length i32) (result i32)
    (local $state i32) (local $child i32)
    (local.set $child (i32.const -1))
    (block $found
      (loop $next
        (local.set $state (call $nextEntry))
        (if (i32.eq (local.get $state) (i32.const -1)) (then (return (i32.const -1))))
        (br_if $found (i32.eqz (local.get $state)))
        (br_if $found (i32.and
          (i32.ne (local.get $child) (i32.const -1))
          (i32.gt_s (call $compareKey (local.get $length)) (i32.const 0))))
        (local.set $child (i32.load (global.get $valueAt)))
        (br $next)))
    (local.get $child))

  ;; Walks to the entry of this index; 1, or 0 where there are not so many, or -1.
  (func (export "nthEntry") (param $index i32) (result i32)
    (local $state i32)
    (loop $next
      (local.set $state (call $nextEntry))
      (if (i32.ne (local.get $state) (i32.const 1)) (then (return (local.get $state))))
      (if (i32.eqz (local.get $index)) (then (return (i32.const 1))))
      (local.set $index (i32.sub (local.get $index) (i32.const 1)))
      (br $next))
    (i32.const -1))

  ;; Fills the tables: entry i of table 0 is the CRC-32 of the byte i, of table k that of i and k zero bytes.
  (func (export "prepare")
    (local $i i32) (local $k i32) (local $crc i32)
    (loop $next
      (local.set $crc (local.get $i))
      (local.set $k (i32.const 8))
      (loop $bit
        (local.set $crc (i32.xor
          (i32.shr_u (local.get $crc) (i32.const 1))
          (i32.and (i32.const 0xedb88320) (i32.sub (i32.const 0) (i32.and (local.get $crc) (i32.const 1))))))
        (br_if $bit (local.tee $k (i32.sub (local.get $k) (i32.const 1)))))
      (i32.store offset=1024 (i32.shl (local.get $i) (i32.const 2)) (local.get $crc))
      (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 256))))
    ;; $i goes on through the tables behind the first one.
    (loop $next
      (local.set $crc (i32.load (i32.shl (local.get $i) (i32.const 2))))
      (i32.store offset=1024 (i32.shl (local.get $i) (i32.const 2))
        (i32.xor (i32.shr_u (local.get $crc) (i32.const 8))
          (i32.load offset=1024 (i32.shl (i32.and (local.get $crc) (i32.const 255)) (i32.const 2)))))
      (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 2048)))))

  ;; CRC-32 of what had the CRC-32 $crc (0: nothing) and then $length bytes at $p, eight at a time.
  (func (export "checksum") (param $p i32) (param $length i32) (param $crc i32) (result i32)
    (local $high i32) (local $end i32)
    (local.set $crc (i32.xor (local.get $crc) (i32.const -1)))
    (local.set $end (i32.add (local.get $p) (i32.and (local.get $length) (i32.const -8))))
    (block $whole
      (loop $next
        (br_if $whole (i32.ge_u (local.get $p) (local.get $end)))
        (local.set $crc (i32.xor (local.get $crc) (i32.load (local.get $p))))
        (local.set $high (i32.load offset=4 (local.get $p)))
        (local.set $crc
          (i32.xor
            (i32.xor
              (i32.xor
                (i32.load offset=8192 (i32.shl (i32.and (local.get $crc) (i32.const 255)) (i32.const 2)))
                (i32.load offset=7168 (i32.and (i32.shr_u (local.get $crc) (i32.const 6)) (i32.const 1020))))
              (i32.xor
                (i32.load offset=6144 (i32.and (i32.shr_u (local.get $crc) (i32.const 14)) (i32.const 1020)))
                (i32.load offset=5120 (i32.and (i32.shr_u (local.get $crc) (i32.const 22)) (i32.const 1020)))))
            (i32.xor
              (i32.xor
                (i32.load offset=4096 (i32.shl (i32.and (local.get $high) (i32.const 255)) (i32.const 2)))
                (i32.load offset=3072 (i32.and (i32.shr_u (local.get $high) (i32.const 6)) (i32.const 1020))))
              (i32.xor
                (i32.load offset=2048 (i32.and (i32.shr_u (local.get $high) (i32.const 14)) (i32.const 1020)))
                (i32.load offset=1024 (i32.and (i32.shr_u (local.get $high) (i32.const 22)) (i32.const 1020)))))))
        (local.set $p (i32.add (local.get $p) (i32.const 8)))
        (br $next)))
    (local.set $end (i32.add (local.get $p) (i32.and (local.get $length) (i32.const 7))))
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $p) (local.get $end)))
        (local.set $crc (i32.xor (i32.shr_u (local.get $crc) (i32.const 8))
          (i32.load offset=1024
            (i32.shl (i32.and (i32.xor (local.get $crc) (i32.load8_u (local.get $p))) (i32.const 255)) (i32.const 2)))))
        (local.set $p (i32.add (local.get $p) (i32.const 1)))
        (br $next)))
    (i32.xor (local.get $crc) (i32.const -1)))

  (func (export "filter") (param $bits i32) (global.set $eligible (local.get $bits)))

  (func $passes (param $record i32) (result i32)
    (if (i32.eqz (global.get $eligible)) (then (return (i32.const 1))))
    (i32.and
      (i32.shr_u
        (i32.load8_u (i32.add (global.get $eligible) (i32.shr_u (local.get $record) (i32.const 3))))
        (i32.and (local.get $record) (i32.const 7)))
      (i32.const 1)))

  ;; Decodes $n record numbers that follow $previous into the scratch at 0; returns where they end.
  (func $decode (param $p i32) (param $end i32) (param $n i32) (param $previous i32) (result i32)
    (local $out i32) (local $outEnd i32) (local $byte i32) (local $delta i32) (local $shift i32)
    (local.set $outEnd (i32.shl (local.get $n) (i32.const 2)))
    (loop $next
      (if (i32.ge_u (local.get $p) (local.get $end)) (then (return (i32.const -1))))
      (local.set $delta (i32.load8_u (local.get $p)))
      (local.set $p (i32.add (local.get $p) (i32.const 1)))
      (if (i32.ge_u (local.get $delta) (i32.const 128))
        (then
          (local.set $delta (i32.and (local.get $delta) (i32.const 127)))
          (local.set $shift (i32.const 7))
          (loop $more
            (if (i32.ge_u (local.get $p) (local.get $end)) (then (return (i32.const -1))))
            (if (i32.gt_u (local.get $shift) (i32.const 21)) (then (return (i32.const -1))))
            (local.set $byte (i32.load8_u (local.get $p)))
            (local.set $p (i32.add (local.get $p) (i32.const 1)))
            (local.set $delta
              (i32.or (local.get $delta)
                (i32.shl (i32.and (local.get $byte) (i32.const 127)) (local.get $shift))))
            (local.set $shift (i32.add (local.get $shift) (i32.const 7)))
            (br_if $more (i32.ge_u (local.get $byte) (i32.const 128))))))
      (local.set $previous (i32.add (i32.add (local.get $previous) (local.get $delta)) (i32.const 1)))
      (if (i32.ge_u (local.get $previous) (global.get $records)) (then (return (i32.const -1))))
      (i32.store (local.get $out) (local.get $previous))
      (local.set $out (i32.add (local.get $out) (i32.const 4)))
      (br_if $next (i32.lt_u (local.get $out) (local.get $outEnd))))
    (local.get $p))

  ;; What a block is decoded for: $score, $mark or $gather.
  (type $use (func (param $n i32) (param $impacts i32) (param $fields i32) (param $a i32) (param $b i32)))
  (table 3 funcref)
  (elem (i32.const 0) $score $mark $gather)

  (func $fieldsAt (param $fields i32) (param $i i32) (result i32)
    (i32.and
      (i32.shr_u
        (i32.load8_u (i32.add (local.get $fields) (i32.shr_u (local.get $i) (i32.const 1))))
        (i32.shl (i32.and (local.get $i) (i32.const 1)) (i32.const 2)))
      (i32.const 15)))

  ;; 0: score += impact * $weight.
  (func $score (type $use) (param $n i32) (param $impacts i32) (param $fields i32) (param $weight i32) (param $unused i32)
    (local $i i32) (local $record i32) (local $at i32) (local $before i32)
    (loop $next
      (local.set $record (i32.load (i32.shl (local.get $i) (i32.const 2))))
      (if (call $passes (local.get $record))
        (then
          (local.set $at (i32.add (global.get $scores) (i32.shl (local.get $record) (i32.const 2))))
          (local.set $before (i32.load (local.get $at)))
          (if (i32.eqz (local.get $before)) (then (call $meet (local.get $record))))
          (i32.store (local.get $at)
            (i32.add (local.get $before)
              (i32.mul (local.get $weight) (i32.load8_u (i32.add (local.get $impacts) (local.get $i))))))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $i) (local.get $n)))))

  ;; The count has a bound, so that a file with an impact of 0 cannot write beyond the array.
  (func $meet (param $record i32)
    (if (i32.ge_u (global.get $metCount) (global.get $records)) (then (return)))
    (i32.store (i32.add (global.get $met) (i32.shl (global.get $metCount) (i32.const 2))) (local.get $record))
    (global.set $metCount (i32.add (global.get $metCount) (i32.const 1))))

  ;; 1: sets the bits of the records that have the term in one of $wanted; 0 asks for no field.
  (func $mark (type $use) (param $n i32) (param $impacts i32) (param $fields i32) (param $wanted i32) (param $bits i32)
    (local $i i32) (local $record i32) (local $at i32) (local $take i32)
    (loop $next
      (local.set $take (i32.const 1))
      (if (local.get $wanted)
        (then (local.set $take
          (i32.and (call $fieldsAt (local.get $fields) (local.get $i)) (local.get $wanted)))))
      (if (local.get $take)
        (then
          (local.set $record (i32.load (i32.shl (local.get $i) (i32.const 2))))
          (local.set $at (i32.add (local.get $bits) (i32.shr_u (local.get $record) (i32.const 3))))
          (i32.store8 (local.get $at)
            (i32.or (i32.load8_u (local.get $at))
              (i32.shl (i32.const 1) (i32.and (local.get $record) (i32.const 7)))))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $i) (local.get $n)))))

  ;; 2: joins the terms of one word: the best impact and all fields.
  (func $gather (type $use) (param $n i32) (param $impacts i32) (param $fields i32) (param $unused i32) (param $unused2 i32)
    (local $i i32) (local $record i32) (local $at i32) (local $old i32) (local $impact i32)
    (loop $next
      (local.set $record (i32.load (i32.shl (local.get $i) (i32.const 2))))
      (local.set $at (i32.add (global.get $group) (i32.shl (local.get $record) (i32.const 1))))
      (local.set $old (i32.load16_u (local.get $at)))
      (if (i32.and (i32.eqz (local.get $old)) (i32.lt_u (global.get $inGroupCount) (global.get $records)))
        (then
          (i32.store (i32.add (global.get $inGroup) (i32.shl (global.get $inGroupCount) (i32.const 2))) (local.get $record))
          (global.set $inGroupCount (i32.add (global.get $inGroupCount) (i32.const 1)))))
      (local.set $impact (i32.load8_u (i32.add (local.get $impacts) (local.get $i))))
      (if (i32.lt_u (local.get $impact) (i32.shr_u (local.get $old) (i32.const 8)))
        (then (local.set $impact (i32.shr_u (local.get $old) (i32.const 8)))))
      (i32.store16 (local.get $at)
        (i32.or
          (i32.shl (local.get $impact) (i32.const 8))
          (i32.or (i32.and (local.get $old) (i32.const 15))
            (call $fieldsAt (local.get $fields) (local.get $i)))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $i) (local.get $n)))))

  ;; Reads a whole list of $count postings; $scored = 0: a list of bare record numbers.
  (func (export "walk") (param $use i32) (param $p i32) (param $length i32) (param $count i32) (param $scored i32)
    (param $a i32) (param $b i32) (result i32)
    (local $end i32) (local $n i32) (local $impacts i32) (local $fields i32) (local $previous i32)
    (if (i32.eqz (local.get $count)) (then (return (i32.const -1))))
    (local.set $end (i32.add (local.get $p) (local.get $length)))
    (local.set $previous (i32.const -1))
    (if (i32.gt_u (local.get $count) (i32.const 128))
      (then (local.set $p (i32.add (local.get $p)
        (i32.mul (i32.shr_u (i32.add (local.get $count) (i32.const 127)) (i32.const 7)) (i32.const 9))))))
    (loop $next
      (local.set $n (select (local.get $count) (i32.const 128) (i32.lt_u (local.get $count) (i32.const 128))))
      (local.set $impacts (local.get $p))
      (local.set $fields (i32.add (local.get $p) (local.get $n)))
      (if (local.get $scored)
        (then (local.set $p (i32.add (local.get $fields)
          (i32.shr_u (i32.add (local.get $n) (i32.const 1)) (i32.const 1))))))
      (if (i32.gt_u (local.get $p) (local.get $end)) (then (return (i32.const -1))))
      (local.set $p (call $decode (local.get $p) (local.get $end) (local.get $n) (local.get $previous)))
      (if (i32.eq (local.get $p) (i32.const -1)) (then (return (i32.const -1))))
      (local.set $previous (i32.load (i32.shl (i32.sub (local.get $n) (i32.const 1)) (i32.const 2))))
      (call_indirect (type $use) (local.get $n) (local.get $impacts) (local.get $fields)
        (local.get $a) (local.get $b) (local.get $use))
      (local.set $count (i32.sub (local.get $count) (local.get $n)))
      (br_if $next (local.get $count)))
    (if (i32.ne (local.get $p) (local.get $end)) (then (return (i32.const -1))))
    (i32.const 0))

  ;; score += impact * $weight for a whole list without a filter, in one go over its bytes: what most searches do.
  ;; A sound list ends where it should. One that is not may be read up to 512 bytes beyond its end, and may set scores
  ;; within 16,512 records behind the last one, before that is found out: kernel.ts leaves room for both.
  (func (export "scoreAll") (param $p i32) (param $length i32) (param $count i32) (param $weight i32) (result i32)
    (local $end i32) (local $n i32) (local $impacts i32) (local $stop i32) (local $record i32) (local $delta i32)
    (local $byte i32) (local $shift i32) (local $at i32) (local $before i32) (local $met i32) (local $scores i32)
    (if (i32.eqz (local.get $count)) (then (return (i32.const -1))))
    (local.set $scores (global.get $scores))
    (local.set $met (i32.add (global.get $met) (i32.shl (global.get $metCount) (i32.const 2))))
    (local.set $end (i32.add (local.get $p) (local.get $length)))
    (local.set $record (i32.const -1))
    (if (i32.gt_u (local.get $count) (i32.const 128))
      (then (local.set $p (i32.add (local.get $p)
        (i32.mul (i32.shr_u (i32.add (local.get $count) (i32.const 127)) (i32.const 7)) (i32.const 9))))))
    (loop $block
      (local.set $n (select (local.get $count) (i32.const 128) (i32.lt_u (local.get $count) (i32.const 128))))
      (local.set $impacts (local.get $p))
      (local.set $stop (i32.add (local.get $p) (local.get $n)))
      (local.set $p (i32.add (local.get $stop) (i32.shr_u (i32.add (local.get $n) (i32.const 1)) (i32.const 1))))
      (if (i32.gt_u (local.get $p) (local.get $end)) (then (return (i32.const -1))))
      (loop $next
        (local.set $delta (i32.load8_u (local.get $p)))
        (local.set $p (i32.add (local.get $p) (i32.const 1)))
        (if (i32.ge_u (local.get $delta) (i32.const 128))
          (then
            (local.set $delta (i32.and (local.get $delta) (i32.const 127)))
            (local.set $shift (i32.const 7))
            (loop $more
              (if (i32.gt_u (local.get $shift) (i32.const 21)) (then (return (i32.const -1))))
              (local.set $byte (i32.load8_u (local.get $p)))
              (local.set $p (i32.add (local.get $p) (i32.const 1)))
              (local.set $delta
                (i32.or (local.get $delta)
                  (i32.shl (i32.and (local.get $byte) (i32.const 127)) (local.get $shift))))
              (local.set $shift (i32.add (local.get $shift) (i32.const 7)))
              (br_if $more (i32.ge_u (local.get $byte) (i32.const 128))))
            (if (i32.ge_u (i32.add (i32.add (local.get $record) (local.get $delta)) (i32.const 1)) (global.get $records))
              (then (return (i32.const -1))))))
        (local.set $record (i32.add (i32.add (local.get $record) (local.get $delta)) (i32.const 1)))
        (local.set $at (i32.add (local.get $scores) (i32.shl (local.get $record) (i32.const 2))))
        (local.set $before (i32.load (local.get $at)))
        (if (i32.eqz (local.get $before))
          (then
            (i32.store (local.get $met) (local.get $record))
            (local.set $met (i32.add (local.get $met) (i32.const 4)))))
        (i32.store (local.get $at)
          (i32.add (local.get $before) (i32.mul (local.get $weight) (i32.load8_u (local.get $impacts)))))
        (local.set $impacts (i32.add (local.get $impacts) (i32.const 1)))
        (br_if $next (i32.lt_u (local.get $impacts) (local.get $stop))))
      (if (i32.ge_u (local.get $record) (global.get $records)) (then (return (i32.const -1))))
      (local.set $before (i32.shr_u (i32.sub (local.get $met) (global.get $met)) (i32.const 2)))
      ;; More than there are: an impact of 0 let a record be met twice.
      (if (i32.gt_u (local.get $before) (global.get $records)) (then (return (i32.const -1))))
      (local.set $count (i32.sub (local.get $count) (local.get $n)))
      (br_if $block (local.get $count)))
    (global.set $metCount (local.get $before))
    (if (i32.ne (local.get $p) (local.get $end)) (then (return (i32.const -1))))
    (i32.const 0))

  ;; Impact << 8 | fields of one record in a list that `walk` has found sound; 0 where the list has it not.
  (func (export "find") (param $p i32) (param $length i32) (param $count i32) (param $record i32) (result i32)
    (local $end i32) (local $start i32) (local $blocks i32) (local $entry i32) (local $n i32) (local $i i32)
    (local $previous i32) (local $from i32)
    (local.set $end (i32.add (local.get $p) (local.get $length)))
    (local.set $previous (i32.const -1))
    (local.set $n (local.get $count))
    (local.set $start (local.get $p))
    (if (i32.gt_u (local.get $count) (i32.const 128))
      (then
        (local.set $blocks (i32.shr_u (i32.add (local.get $count) (i32.const 127)) (i32.const 7)))
        (local.set $entry (local.get $p))
        (local.set $start (i32.add (local.get $p) (i32.mul (local.get $blocks) (i32.const 9))))
        (block $found
          (loop $next
            (br_if $found (i32.ge_u (i32.load (local.get $entry)) (local.get $record)))
            (local.set $previous (i32.load (local.get $entry)))
            (local.set $from (i32.load offset=4 (local.get $entry)))
            (local.set $entry (i32.add (local.get $entry) (i32.const 9)))
            (local.set $n (i32.sub (local.get $n) (i32.const 128)))
            (br_if $next (i32.lt_u (local.get $entry) (local.get $start))))
          (return (i32.const 0)))
        (local.set $start (i32.add (local.get $start) (local.get $from)))
        (if (i32.gt_u (local.get $n) (i32.const 128)) (then (local.set $n (i32.const 128))))))
    (local.set $from (local.get $start))
    (local.set $start (i32.add (local.get $start)
      (i32.add (local.get $n) (i32.shr_u (i32.add (local.get $n) (i32.const 1)) (i32.const 1)))))
    (if (i32.gt_u (local.get $start) (local.get $end)) (then (return (i32.const -1))))
    (local.set $start (call $decode (local.get $start) (local.get $end) (local.get $n) (local.get $previous)))
    (if (i32.eq (local.get $start) (i32.const -1)) (then (return (i32.const -1))))
    (loop $scan
      (if (i32.eq (i32.load (i32.shl (local.get $i) (i32.const 2))) (local.get $record))
        (then (return (i32.or
          (i32.shl (i32.load8_u (i32.add (local.get $from) (local.get $i))) (i32.const 8))
          (call $fieldsAt (i32.add (local.get $from) (local.get $n)) (local.get $i))))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $scan (i32.lt_u (local.get $i) (local.get $n))))
    (i32.const 0))

  (func (export "groupCount") (result i32) (global.get $inGroupCount))

  ;; Adds the gathered word to the scores and empties the group: impact * $weight, or with $weight 0 the literal sum.
  (func (export "addGroup") (param $weight i32)
    (local $i i32) (local $record i32) (local $at i32) (local $value i32) (local $add i32)
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $i) (global.get $inGroupCount)))
        (local.set $record (i32.load (i32.add (global.get $inGroup) (i32.shl (local.get $i) (i32.const 2)))))
        (local.set $at (i32.add (global.get $group) (i32.shl (local.get $record) (i32.const 1))))
        (local.set $value (i32.load16_u (local.get $at)))
        (i32.store16 (local.get $at) (i32.const 0))
        (local.set $add (i32.mul (i32.shr_u (local.get $value) (i32.const 8)) (local.get $weight)))
        (if (i32.eqz (local.get $weight))
          (then (local.set $add
            (i32.load offset=512 (i32.shl (i32.and (local.get $value) (i32.const 15)) (i32.const 2))))))
        (if (call $passes (local.get $record)) (then (call $raise (local.get $record) (local.get $add))))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br $next)))
    (global.set $inGroupCount (i32.const 0)))

  (func (export "dropGroup")
    (local $i i32)
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $i) (global.get $inGroupCount)))
        (i32.store16
          (i32.add (global.get $group)
            (i32.shl (i32.load (i32.add (global.get $inGroup) (i32.shl (local.get $i) (i32.const 2)))) (i32.const 1)))
          (i32.const 0))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br $next)))
    (global.set $inGroupCount (i32.const 0)))

  ;; Lifts one record, unless a filter holds it back.
  (func (export "lift") (param $record i32) (param $add i32)
    (if (call $passes (local.get $record)) (then (call $raise (local.get $record) (local.get $add)))))

  (func $raise (param $record i32) (param $add i32)
    (local $at i32) (local $before i32)
    (local.set $at (i32.add (global.get $scores) (i32.shl (local.get $record) (i32.const 2))))
    (local.set $before (i32.load (local.get $at)))
    (if (i32.eqz (local.get $before)) (then (call $meet (local.get $record))))
    (i32.store (local.get $at) (i32.add (local.get $before) (local.get $add))))

  (func (export "metCount") (result i32) (global.get $metCount))

  ;; The best $limit records as pairs (score, record) at $out, by falling score, then rising record; returns how many.
  (func (export "best") (param $limit i32) (param $out i32) (result i32)
    (local $i i32) (local $record i32) (local $score i32) (local $count i32) (local $low i32) (local $high i32)
    (local $middle i32) (local $at i32) (local $last i32) (local $floor i32)
    (if (i32.eqz (local.get $limit)) (then (return (i32.const 0))))
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $i) (global.get $metCount)))
        (local.set $record (i32.load (i32.add (global.get $met) (i32.shl (local.get $i) (i32.const 2)))))
        (local.set $score
          (i32.load (i32.add (global.get $scores) (i32.shl (local.get $record) (i32.const 2)))))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        ;; Most records end here: below the last one of a full list.
        (br_if $next (i32.lt_u (local.get $score) (local.get $floor)))
        (if (i32.eq (local.get $count) (local.get $limit))
          (then
            (local.set $last (i32.add (local.get $out) (i32.shl (i32.sub (local.get $count) (i32.const 1)) (i32.const 3))))
            (br_if $next (call $before (local.get $last) (local.get $score) (local.get $record)))))
        ;; Where it belongs: behind all that come before it.
        (local.set $low (i32.const 0))
        (local.set $high (local.get $count))
        (block $placed
          (loop $halve
            (br_if $placed (i32.ge_u (local.get $low) (local.get $high)))
            (local.set $middle (i32.shr_u (i32.add (local.get $low) (local.get $high)) (i32.const 1)))
            (if (call $before (i32.add (local.get $out) (i32.shl (local.get $middle) (i32.const 3)))
                  (local.get $score) (local.get $record))
              (then (local.set $low (i32.add (local.get $middle) (i32.const 1))))
              (else (local.set $high (local.get $middle))))
            (br $halve)))
        (if (i32.lt_u (local.get $count) (local.get $limit))
          (then (local.set $count (i32.add (local.get $count) (i32.const 1)))))
        (local.set $at (i32.add (local.get $out) (i32.shl (local.get $low) (i32.const 3))))
        (memory.copy (i32.add (local.get $at) (i32.const 8)) (local.get $at)
          (i32.shl (i32.sub (i32.sub (local.get $count) (i32.const 1)) (local.get $low)) (i32.const 3)))
        (i32.store (local.get $at) (local.get $score))
        (i32.store offset=4 (local.get $at) (local.get $record))
        (if (i32.eq (local.get $count) (local.get $limit))
          (then (local.set $floor (i32.load
            (i32.add (local.get $out) (i32.shl (i32.sub (local.get $count) (i32.const 1)) (i32.const 3)))))))
        (br $next)))
    (local.get $count))

  ;; Whether the pair at $at comes before (score, record).
  (func $before (param $at i32) (param $score i32) (param $record i32) (result i32)
    (local $its i32)
    (local.set $its (i32.load (local.get $at)))
    (if (i32.ne (local.get $its) (local.get $score))
      (then (return (i32.gt_u (local.get $its) (local.get $score)))))
    (i32.lt_u (i32.load offset=4 (local.get $at)) (local.get $record)))

  ;; Forgets all scores: only the records that were met are touched.
  (func (export "end")
    (local $i i32)
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $i) (global.get $metCount)))
        (i32.store
          (i32.add (global.get $scores)
            (i32.shl (i32.load (i32.add (global.get $met) (i32.shl (local.get $i) (i32.const 2)))) (i32.const 2)))
          (i32.const 0))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br $next)))
    (global.set $metCount (i32.const 0)))
)
