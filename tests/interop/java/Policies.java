// Policies URI SCOPE CASE: what the policies of streams do to writers and readers; the scope exists. A case is one of the
// methods below. It checks for itself, prints facts as "FACT name number" and ends with an exception if one is wrong.
import io.pravega.client.ClientConfig;
import io.pravega.client.EventStreamClientFactory;
import io.pravega.client.admin.ReaderGroupManager;
import io.pravega.client.admin.StreamInfo;
import io.pravega.client.admin.StreamManager;
import io.pravega.client.control.impl.Controller;
import io.pravega.client.control.impl.ControllerImpl;
import io.pravega.client.control.impl.ControllerImplConfig;
import io.pravega.client.segment.impl.Segment;
import io.pravega.client.stream.*;
import io.pravega.client.stream.ReaderGroupConfig.StreamDataRetention;
import io.pravega.client.stream.impl.UTF8StringSerializer;
import java.net.URI;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.locks.LockSupport;

public class Policies {
    static final Serializer<String> TEXT = new UTF8StringSerializer();
    static final int KEYS = 20;
    static final int PAYLOAD = 100;
    static String scope;
    static StreamManager streams;
    static ReaderGroupManager groups;
    static EventStreamClientFactory factory;
    static Controller controller;
    static ScheduledExecutorService executor = Executors.newScheduledThreadPool(2);

    public static void main(String[] args) throws Exception {
        ClientConfig config = ClientConfig.builder().controllerURI(URI.create(args[0])).build();
        scope = args[1];
        controller = new ControllerImpl(ControllerImplConfig.builder().clientConfig(config).build(), executor);
        streams = StreamManager.create(config);
        groups = ReaderGroupManager.withScope(scope, config);
        factory = EventStreamClientFactory.withScope(scope, config);
        try {
            Policies.class.getDeclaredMethod(args[2]).invoke(null);
        } catch (Throwable error) {
            error.printStackTrace();
            System.exit(1);
        }
        System.exit(0);
    }

    // ---------------------------------------------------------------------------------------- scaling

    static void eventRate() throws Exception {
        followLoad(ScalingPolicy.byEventRate(100, 2, 1));
    }

    static void dataRate() throws Exception {
        followLoad(ScalingPolicy.byDataRate(12, 2, 1));
    }

    /** A stream splits by itself while it is written and read, merges when it is idle, and is written and read again. */
    static void followLoad(ScalingPolicy policy) throws Exception {
        create("events", policy, null);
        try (Readers readers = new Readers(group("group", "events", StreamDataRetention.NONE), 2)) {
            Load load = new Load("events", 600);
            until("it splits", () -> ids("events").size() >= 4);
            fact("split", ids("events").size());
            int rounds = load.finish();
            until("all is read", () -> readers.haveRead(rounds));
            until("it merges", () -> ids("events").size() == 1);
            Load slow = new Load("events", 80, rounds);
            until("more is written", () -> slow.rounds > rounds + 5);
            int all = slow.finish();
            until("all is read again", () -> readers.haveRead(all));
            check(readers.skipped() == 0, "events are missing");
            fact("events", readers.events);
        }
    }

    /** Scales that are asked for while a writer notes times: split, merged, split unevenly. */
    static void manual() throws Exception {
        create("events", ScalingPolicy.fixed(1), null);
        Stream stream = Stream.of(scope, "events");
        try (Readers readers = new Readers(group("group", "events", StreamDataRetention.NONE), 2)) {
            Load load = new Load("events", 200);
            double[][] bounds = {{0.5}, {}, {0.1, 0.3, 0.7}};
            for (int epoch = 0; epoch < bounds.length; epoch++) {
                int before = epoch;
                List<Long> sealed = ids("events");
                check(!controller.checkScaleStatus(stream, before).get(), "no scale has left epoch " + before);
                check(controller.scaleStream(stream, sealed, ranges(bounds[epoch]), executor).getFuture().get(), "not scaled");
                check(controller.checkScaleStatus(stream, before).get(), "a scale has left epoch " + before);
                check(ids("events").size() == bounds[epoch].length + 1, "wrong number of segments");
                check(idsOf(controller.getEpochSegments(scope, "events", before).get().getSegments()).equals(sealed), "another epoch");
                check(!controller.startScale(stream, sealed, ranges(0.25)).get(), "segments are sealed twice");
                int rounds = load.rounds;
                until("writing goes on", () -> load.rounds > rounds + 10);
            }
            int noted = load.rounds;
            until("watermarks pass the scales", () -> readers.lower > noted);
            int rounds = load.finish();
            until("all is read", () -> readers.haveRead(rounds));
            check(readers.skipped() == 0, "events are missing");
            check(readers.windowsAscend, "time went back");
            fact("events", readers.events);
        }
    }

    // ---------------------------------------------------------------------------------------- retention

    /** The head moves so that at least the minimum stays; a reader that is behind it goes on at it. */
    static void size() throws Exception {
        long minimum = 40_000;
        create("events", ScalingPolicy.fixed(2), RetentionPolicy.bySizeBytes(minimum));
        ReaderGroup behind = groupFrom("behind", info("events").getTailStreamCut());
        Load load = new Load("events", 500);
        Map<Segment, Long> first = head("events");
        until("the head moves", () -> !head("events").equals(first));
        Map<Segment, Long> second = head("events");
        until("it moves again", () -> !head("events").equals(second));
        int rounds = load.finish();
        settle("events");
        try (Readers readers = new Readers(behind, 1)) {
            until("all is read", () -> readers.haveRead(rounds));
            check(readers.truncations > 0, "the reader was not told");
            check(readers.contiguous(), "events are missing behind the head");
            fact("minimum", minimum);
            fact("retained", bytes(head("events"), tail("events")));
            fact("read", readers.bytes);
            fact("written", bytes(first, tail("events")));
        }
    }

    /** What is younger than the minimum stays; what is idle goes, all of it. */
    static void time() throws Exception {
        long minimumMs = 2000;
        create("events", ScalingPolicy.fixed(2), RetentionPolicy.byTime(Duration.ofMillis(minimumMs)));
        Map<Segment, Long> first = head("events");
        Load load = new Load("events", 300);
        until("the head moves", () -> !head("events").equals(first));
        int rounds = load.finish();
        try (Readers readers = new Readers(group("group", "events", StreamDataRetention.NONE), 1)) {
            until("all is read", () -> readers.haveRead(rounds));
            long needed = load.begunAfter(System.currentTimeMillis() - minimumMs);
            check(readers.first() > 0, "nothing was truncated");
            check(readers.first() <= needed, "round " + needed + " is gone");
            check(readers.contiguous(), "events are missing");
        }
        until("all of it is gone", () -> head("events").equals(tail("events")));
    }

    /** A stream is truncated at where the readers of a group are. */
    static void cut() throws Exception {
        create("events", ScalingPolicy.fixed(2), null);
        ReaderGroup behind = groupFrom("behind", info("events").getHeadStreamCut());
        ReaderGroup group = group("group", "events", StreamDataRetention.NONE);
        Load load = new Load("events", 1000);
        until("something is written", () -> load.rounds >= 20);
        int read = 0;
        StreamCut beginning = group.getStreamCuts().get(Stream.of(scope, "events"));
        try (EventStreamReader<String> reader = factory.createReader("reader", "group", TEXT, ReaderConfig.builder().build())) {
            while (read < 150) {
                read += reader.readNextEvent(1000).getEvent() == null ? 0 : 1;
            }
        }
        check(controller.scaleStream(Stream.of(scope, "events"), ids("events"), ranges(0.2, 0.6), executor).getFuture().get(), "not scaled");
        int rounds = load.finish();
        StreamCut at = group.getStreamCuts().get(Stream.of(scope, "events"));
        check(streams.truncateStream(scope, "events", at), "not truncated");
        check(streams.truncateStream(scope, "events", at), "not truncated a second time");
        check(head("events").equals(at.asImpl().getPositions()), "the head is elsewhere");
        check(!succeeds(() -> streams.truncateStream(scope, "events", beginning)), "the head went back");
        check(head("events").equals(at.asImpl().getPositions()), "the head went back");
        for (ReaderGroup each : List.of(behind, group("fresh", "events", StreamDataRetention.NONE))) {
            try (Readers readers = new Readers(each, 1)) {
                until("the rest is read", () -> readers.haveRead(rounds));
                check(readers.events == rounds * KEYS - 150, "read " + readers.events + " of " + (rounds * KEYS - 150));
                check(readers.contiguous(), "events are missing");
                check(readers.truncations > 0 == (each == behind), "told wrongly");
            }
        }
    }

    // ---------------------------------------------------------------------------------------- subscribers

    /** Retention waits for what the application reports, up to the maximum, and until the group is deleted. */
    static void manualRelease() throws Exception {
        RetentionPolicy unlimited = RetentionPolicy.bySizeBytes(10_000);
        create("held", ScalingPolicy.fixed(2), unlimited);
        create("free", ScalingPolicy.fixed(2), unlimited);
        Stream held = Stream.of(scope, "held");
        ReaderGroup group = group("group", "held", StreamDataRetention.MANUAL_RELEASE_AT_USER_STREAMCUT);
        check(subscribers("held").equals(List.of(scope + "/group")), "no subscriber");
        StreamCut beginning = info("held").getHeadStreamCut();
        group.updateRetentionStreamCut(Map.of(held, beginning));
        Load load = new Load("held", 400);
        Load other = new Load("free", 400);
        waitForMoves("free", 3);
        check(head("held").equals(beginning.asImpl().getPositions()), "it did not wait for its subscriber");
        Readers readers = new Readers(group, 1);
        int rounds = load.rounds;
        until("some is read", () -> readers.haveRead(rounds));
        readers.close();
        StreamCut at = group.getStreamCuts().get(held);
        group.updateRetentionStreamCut(Map.of(held, at));
        until("it is truncated at what was reported", () -> head("held").equals(at.asImpl().getPositions()));
        check(!succeeds(() -> group.updateRetentionStreamCut(Map.of(held, beginning))), "a report went back");
        waitForMoves("free", 3);
        check(head("held").equals(at.asImpl().getPositions()), "it did not wait again");

        RetentionPolicy limited = RetentionPolicy.builder().retentionType(RetentionPolicy.RetentionType.SIZE)
            .retentionParam(10_000).retentionMax(50_000).build();
        check(streams.updateStream(scope, "held", config(ScalingPolicy.fixed(2), limited)), "not updated");
        check(info("held").getStreamConfiguration().getRetentionPolicy().getRetentionMax() == 50_000, "another maximum");
        until("the maximum overrules the subscriber", () -> bytes(at.asImpl().getPositions(), head("held")) > 0);
        fact("limited", bytes(head("held"), tail("held")));

        check(streams.updateStream(scope, "held", config(ScalingPolicy.fixed(2), unlimited)), "not updated");
        Map<Segment, Long> last = head("held");
        groups.deleteReaderGroup("group");
        check(subscribers("held").isEmpty(), "a deleted group is a subscriber");
        until("nothing is held", () -> bytes(last, head("held")) > 0);
        waitForMoves("held", 2);
        load.finish();
        other.finish();
    }

    /** Retention follows the checkpoints of a group, and waits while its reader stands still. */
    static void automaticRelease() throws Exception {
        RetentionPolicy policy = RetentionPolicy.bySizeBytes(10_000);
        create("held", ScalingPolicy.fixed(2), policy);
        create("free", ScalingPolicy.fixed(2), policy);
        ReaderGroup group = group("group", "held", StreamDataRetention.AUTOMATIC_RELEASE_AT_LAST_CHECKPOINT);
        check(subscribers("held").equals(List.of(scope + "/group")), "no subscriber");
        Load load = new Load("held", 400);
        Load other = new Load("free", 400);
        try (Readers readers = new Readers(group, 1)) {
            waitForMoves("held", 3);
            readers.stand(true);
            Map<Segment, Long> checkpoint = settle("held");
            waitForMoves("free", 3);
            check(head("held").equals(checkpoint), "it did not wait for a reader");
            readers.stand(false);
            until("it goes on with the reader", () -> bytes(checkpoint, head("held")) > 0);
            int rounds = load.rounds;
            until("the reader is there", () -> readers.haveRead(rounds));
            // Before the first checkpoint of the group nothing limits the policy.
            check(readers.contiguous(), "events were dropped that were not read");
            readers.stand(true);
            group.resetReaderGroup(ReaderGroupConfig.builder().stream(Stream.of(scope, "held")).build());
            check(subscribers("held").isEmpty(), "a group of another kind is a subscriber");
            waitForMoves("held", 3);
            load.finish();
            other.finish();
        }
    }

    // ---------------------------------------------------------------------------------------- updates

    /** The policies of a stream change while it is written and read; then it is sealed, deleted and created again. */
    static void updates() throws Exception {
        create("events", ScalingPolicy.fixed(1), null);
        List<ScalingPolicy> policies = List.of(ScalingPolicy.fixed(3), ScalingPolicy.byEventRate(1000, 2, 4),
            ScalingPolicy.fixed(2), ScalingPolicy.byDataRate(1000, 2, 2), ScalingPolicy.fixed(1));
        try (Readers readers = new Readers(group("group", "events", StreamDataRetention.NONE), 2)) {
            Load load = new Load("events", 300);
            for (ScalingPolicy policy : policies) {
                for (RetentionPolicy retention : new RetentionPolicy[] {RetentionPolicy.bySizeBytes(1 << 30), null}) {
                    StreamConfiguration wanted = config(policy, retention);
                    check(streams.updateStream(scope, "events", wanted), "not updated");
                    StreamConfiguration found = info("events").getStreamConfiguration();
                    check(found.getScalingPolicy().equals(policy), "another policy: " + found);
                    check(Objects.equals(found.getRetentionPolicy(), retention), "another policy: " + found);
                    check(ids("events").size() == policy.getMinNumSegments(), "segments: " + ids("events"));
                    int rounds = load.rounds;
                    until("writing goes on", () -> load.rounds > rounds + 5);
                }
            }
            int rounds = load.finish();
            until("all is read", () -> readers.haveRead(rounds));
            check(readers.skipped() == 0, "events are missing");
            fact("events", readers.events);
        }
        check(!succeeds(() -> streams.deleteStream(scope, "events")), "it was deleted before it was sealed");
        check(streams.sealStream(scope, "events"), "not sealed");
        check(info("events").isSealed(), "not sealed");
        check(streams.deleteStream(scope, "events"), "not deleted");
        check(!streams.checkStreamExists(scope, "events"), "it exists");
        groups.deleteReaderGroup("group");
        create("events", ScalingPolicy.byEventRate(1000, 2, 2), RetentionPolicy.byTime(Duration.ofDays(1)));
        check(bytes(head("events"), tail("events")) == 0, "it is not empty");
        check(streams.sealStream(scope, "events") && streams.deleteStream(scope, "events"), "not deleted");
        check(streams.deleteScope(scope), "the scope is not deleted");
    }

    // ---------------------------------------------------------------------------------------- what they are made of

    static StreamConfiguration config(ScalingPolicy scaling, RetentionPolicy retention) {
        return StreamConfiguration.builder().scalingPolicy(scaling).retentionPolicy(retention).build();
    }

    static void create(String stream, ScalingPolicy scaling, RetentionPolicy retention) {
        check(streams.createStream(scope, stream, config(scaling, retention)), "not created");
    }

    static ReaderGroup group(String name, String stream, StreamDataRetention retention) {
        // A reader goes on from a segment to its successors at checkpoints only.
        var config = ReaderGroupConfig.builder().stream(Stream.of(scope, stream)).retentionType(retention);
        config.groupRefreshTimeMillis(200).automaticCheckpointIntervalMillis(300);
        check(groups.createReaderGroup(name, config.build()), "no group is created");
        return groups.getReaderGroup(name);
    }

    static ReaderGroup groupFrom(String name, StreamCut start) {
        var config = ReaderGroupConfig.builder().stream(Stream.of(scope, "events"), start);
        groups.createReaderGroup(name, config.groupRefreshTimeMillis(200).automaticCheckpointIntervalMillis(300).build());
        return groups.getReaderGroup(name);
    }

    static StreamInfo info(String stream) throws Exception {
        return streams.fetchStreamInfo(scope, stream).get();
    }

    static Map<Segment, Long> head(String stream) throws Exception {
        return info(stream).getHeadStreamCut().asImpl().getPositions();
    }

    static Map<Segment, Long> tail(String stream) throws Exception {
        return info(stream).getTailStreamCut().asImpl().getPositions();
    }

    /** Bytes between two cuts of the same segments. */
    static long bytes(Map<Segment, Long> from, Map<Segment, Long> to) {
        check(from.keySet().equals(to.keySet()), "cuts of different segments");
        return to.keySet().stream().mapToLong(each -> to.get(each) - from.get(each)).sum();
    }

    static List<String> subscribers(String stream) throws Exception {
        return controller.listSubscribers(scope, stream).get();
    }

    static List<Long> ids(String stream) throws Exception {
        return idsOf(controller.getCurrentSegments(scope, stream).get().getSegments());
    }

    static List<Long> idsOf(Collection<Segment> segments) {
        List<Long> ids = new ArrayList<>();
        segments.forEach(each -> ids.add(each.getSegmentId()));
        Collections.sort(ids);
        return ids;
    }

    static Map<Double, Double> ranges(double... bounds) {
        Map<Double, Double> ranges = new TreeMap<>();
        double low = 0;
        for (double bound : bounds) {
            ranges.put(low, bound);
            low = bound;
        }
        ranges.put(low, 1.0);
        return ranges;
    }

    static void waitForMoves(String stream, int moves) throws Exception {
        for (int move = 0; move < moves; move++) {
            Map<Segment, Long> before = head(stream);
            until("the head moves", () -> !head(stream).equals(before));
        }
    }

    /** Waits until the head has not moved for some periods of retention. */
    static Map<Segment, Long> settle(String stream) throws Exception {
        Map<Segment, Long> present = head(stream);
        for (int looks = 0; looks < 12; looks++) {
            Thread.sleep(100);
            if (!head(stream).equals(present)) {
                present = head(stream);
                looks = 0;
            }
        }
        return present;
    }

    static void until(String what, Callable<Boolean> condition) throws Exception {
        long deadline = System.nanoTime() + 30_000_000_000L;
        while (!condition.call()) {
            check(failure == null, "a thread failed: " + failure);
            check(System.nanoTime() < deadline, "not in 30 s: " + what);
            Thread.sleep(20);
        }
    }

    static boolean succeeds(Callable<Boolean> call) {
        try {
            return call.call();
        } catch (Exception error) {
            return false;
        }
    }

    static boolean succeeds(Runnable call) {
        return succeeds(() -> {
            call.run();
            return true;
        });
    }

    static void check(boolean condition, String otherwise) {
        if (!condition) {
            throw new AssertionError(otherwise);
        }
    }

    static void fact(String name, long number) {
        System.out.println("FACT " + name + " " + number);
    }

    static volatile Throwable failure;

    static Thread start(Callable<Void> work) {
        Thread thread = new Thread(() -> {
            try {
                work.call();
            } catch (Throwable error) {
                error.printStackTrace();
                failure = error;
            }
        });
        thread.start();
        return thread;
    }

    /** Writes rounds of one event per key, at a rate, and notes the round as the time after each. */
    static class Load {
        volatile int rounds;
        private volatile boolean ending;
        private final List<Long> begun = Collections.synchronizedList(new ArrayList<>());
        private final Thread thread;

        Load(String stream, int eventsPerSecond) {
            this(stream, eventsPerSecond, 0);
        }

        Load(String stream, int eventsPerSecond, int fromRound) {
            rounds = fromRound;
            thread = start(() -> {
                try (EventStreamWriter<String> writer = factory.createEventWriter(stream, TEXT, EventWriterConfig.builder().build())) {
                    long start = System.nanoTime();
                    while (!ending) {
                        begun.add(System.currentTimeMillis());
                        for (int key = 0; key < KEYS; key++) {
                            String event = key + ":" + rounds + ":";
                            writer.writeEvent("key" + key, event + "x".repeat(PAYLOAD - event.length()));
                        }
                        writer.flush();
                        writer.noteTime(rounds++);
                        long due = start + (rounds - fromRound) * KEYS * 1_000_000_000L / eventsPerSecond;
                        LockSupport.parkNanos(due - System.nanoTime());
                    }
                }
                return null;
            });
        }

        /** Stops, and returns how many rounds there are. */
        int finish() throws Exception {
            ending = true;
            thread.join();
            check(failure == null, "a thread failed: " + failure);
            return rounds;
        }

        /** The first round that was begun at a time or later. */
        long begunAfter(long timeMs) {
            return begun.stream().filter(each -> each < timeMs).count();
        }
    }

    /** Readers of one group, a thread each. Checks that the events of each key ascend. */
    static class Readers implements AutoCloseable {
        volatile int events;
        volatile long bytes;
        volatile int truncations;
        volatile long lower = -1;
        volatile boolean windowsAscend = true;
        private volatile boolean ending;
        private volatile boolean standing;
        private final Map<Integer, Integer> first = new ConcurrentHashMap<>();
        private final Map<Integer, Integer> last = new ConcurrentHashMap<>();
        private final List<Thread> threads = new ArrayList<>();

        Readers(ReaderGroup group, int count) {
            Map<Integer, Long> lowers = new ConcurrentHashMap<>();
            Stream stream = Stream.of(group.getStreamNames().iterator().next());
            for (int number = 0; number < count; number++) {
                int reader = number;
                threads.add(start(() -> read(group.getGroupName(), stream, reader, lowers)));
            }
        }

        private Void read(String group, Stream stream, int number, Map<Integer, Long> lowers) throws Exception {
            try (EventStreamReader<String> reader = factory.createReader("reader" + number, group, TEXT, ReaderConfig.builder().build())) {
                while (!ending) {
                    if (standing) {
                        Thread.sleep(20);
                        continue;
                    }
                    try {
                        String event = reader.readNextEvent(200).getEvent();
                        if (event != null) {
                            take(event);
                        }
                    } catch (TruncatedDataException told) {
                        truncations++;
                    }
                    Long bound = reader.getCurrentTimeWindow(stream).getLowerTimeBound();
                    if (bound != null) {
                        Long before = lowers.put(number, bound);
                        windowsAscend &= before == null || before <= bound;
                        lower = Math.max(lower, bound);
                    }
                }
            }
            return null;
        }

        private synchronized void take(String event) {
            check(event.length() == PAYLOAD, "no event: " + event);
            String[] parts = event.split(":");
            int key = Integer.parseInt(parts[0]);
            int round = Integer.parseInt(parts[1]);
            Integer before = last.put(key, round);
            check(before == null || before < round, "key " + key + ": " + round + " after " + before);
            first.putIfAbsent(key, round);
            events++;
            bytes += PAYLOAD + 8;
        }

        /** Whether the last events of so many rounds, and hence all that were to be read, were read. */
        synchronized boolean haveRead(int rounds) {
            return last.size() == KEYS && last.values().stream().allMatch(each -> each >= rounds - 1);
        }

        /** How many events are missing between the first round of all and the last ones. */
        synchronized int skipped() {
            return last.values().stream().mapToInt(each -> each + 1).sum() - events;
        }

        /** Whether nothing is missing behind the first event of each key. */
        synchronized boolean contiguous() {
            return skipped() == first.values().stream().mapToInt(each -> each).sum();
        }

        /** The first round of which all events were read. */
        synchronized int first() {
            return Collections.max(first.values());
        }

        void stand(boolean still) {
            standing = still;
        }

        @Override
        public void close() throws Exception {
            ending = true;
            for (Thread thread : threads) {
                thread.join();
            }
        }
    }
}
