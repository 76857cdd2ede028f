//! Tests of the eight steps as a whole.

use super::*;

#[test]
fn the_samples_answer_all_eight_steps() {
    for facts in [samples::empty(), samples::usual(), samples::extreme(), samples::hostile()] {
        let answers = answers(&facts);
        let numbers: Vec<u8> = answers.iter().map(|answer| answer.step.number()).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7, 8]);
        assert!(answers.iter().all(|answer| !answer.headline.is_empty()));
        report_card(&facts);
    }
}
