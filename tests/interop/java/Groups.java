// Groups URI SCOPE STREAM GROUP: makes a reader group and reads it as the lines of its input say, until that ends.
// "read NAME": a reader begins, each event of which is a line "EVENT name text". "leave NAME": it is closed.
// "abandon NAME": it does nothing any more, as if it had died. "offline NAME": it is put offline.
// "ask": a line "CUT text", "UNREAD bytes", and for each reader "READER name segments". Each is followed by "DONE".
import io.pravega.client.ClientConfig;
import io.pravega.client.EventStreamClientFactory;
import io.pravega.client.admin.ReaderGroupManager;
import io.pravega.client.stream.*;
import io.pravega.client.stream.impl.UTF8StringSerializer;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.util.HashMap;
import java.util.Map;

public class Groups {
    static class Consumer extends Thread {
        final String id;
        final EventStreamReader<String> reader;
        volatile boolean goesOn = true;

        Consumer(String id, EventStreamReader<String> reader) {
            this.id = id;
            this.reader = reader;
        }

        @Override
        public void run() {
            while (goesOn) {
                EventRead<String> read = reader.readNextEvent(200);
                if (read.getEvent() != null) {
                    say("EVENT " + id + " " + read.getEvent());
                }
            }
        }
    }

    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    public static void main(String[] args) throws Exception {
        ClientConfig config = ClientConfig.builder().controllerURI(URI.create(args[0])).build();
        Map<String, Consumer> consumers = new HashMap<>();
        try (EventStreamClientFactory factory = EventStreamClientFactory.withScope(args[1], config);
             ReaderGroupManager groups = ReaderGroupManager.withScope(args[1], config)) {
            groups.createReaderGroup(args[3], ReaderGroupConfig.builder().stream(Stream.of(args[1], args[2]))
                .automaticCheckpointIntervalMillis(1000).groupRefreshTimeMillis(300).build());
            ReaderGroup group = groups.getReaderGroup(args[3]);
            say("DONE");
            BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                String[] words = line.split(" ");
                if (words[0].equals("read")) {
                    Consumer made = new Consumer(words[1], factory.createReader(
                        words[1], args[3], new UTF8StringSerializer(), ReaderConfig.builder().build()));
                    consumers.put(words[1], made);
                    made.start();
                } else if (words[0].equals("ask")) {
                    ask(group);
                } else if (words[0].equals("offline")) {
                    group.readerOffline(words[1], null);
                } else {
                    Consumer consumer = consumers.remove(words[1]);
                    consumer.goesOn = false;
                    consumer.join();
                    if (words[0].equals("leave")) {
                        consumer.reader.close();
                    }
                }
                say("DONE");
            }
        }
        System.exit(0);
    }

    static void ask(ReaderGroup group) {
        group.getStreamCuts().values().forEach(cut -> say("CUT " + cut.asText()));
        say("UNREAD " + group.getMetrics().unreadBytes());
        group.getReaderSegmentDistribution().getReaderSegmentDistribution()
            .forEach((reader, count) -> say("READER " + reader + " " + count));
    }
}
